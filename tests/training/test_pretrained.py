"""Fine-tuning: runs that begin with a trained model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import DatasetDict
from transformers import PreTrainedTokenizerFast

from helpers import ROOT, tiny_run
from processes import start
from small_models import (
    PAIRS,
    POSITIONS,
    change_json,
    save_marian_folder,
    save_model_folder,
    small_model,
    small_tokenizer,
)
from wenzhen.answering.export import export_model
from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.models.loading import load_model
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import Recipe, load_recipe
from wenzhen.tokenization import Encoder, load_tokenizer, save_tokenizer, train_tokenizer
from wenzhen.tokenization.extension import extend_tokenizer
from wenzhen.tokenization.folder import SPECIAL_TOKENS, wrap_tokenizer
from wenzhen.tokenization.kinds import character_backend, numbered
from wenzhen.training.log import read_log
from wenzhen.training.pretrained import Pretrained, load_pretrained, take_over
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
SHORT = ("training.max_steps=4", "training.eval_steps=2", "training.logging_steps=1", "evaluation.examples=0")


def loss(model: WenzhenForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Return a model's mean loss on the pairs."""
    inputs, labels = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in rows.to_pylist()], batch_first=True)
        for rows in Encoder(tokenizer).pairs(list(PAIRS), list(PAIRS.values()), POSITIONS, POSITIONS)
    )
    with torch.no_grad():
        return model(
            input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels.masked_fill(labels == 0, -100)
        ).loss


def fresh(tokenizer: PreTrainedTokenizerFast, **config: object) -> WenzhenForConditionalGeneration:
    """Return an untrained model with other weights than [`small_model`] has."""
    model = small_model(tokenizer, **config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.5).add_(0.1)
    return model


def shuffled_tokenizer() -> PreTrainedTokenizerFast:
    """Return the pairs' character tokenizer with the characters in another order."""
    characters = [token for token in small_tokenizer().get_vocab() if token not in SPECIAL_TOKENS]
    return wrap_tokenizer(character_backend(numbered([*SPECIAL_TOKENS, *sorted(characters, reverse=True)])))


SHAPES = [{}, {"norm": "pre", "positions": "learned", "attention_score": "bilinear", "tie_word_embeddings": False}]


@pytest.mark.parametrize("config", SHAPES, ids=["thesis", "other choices"])
def test_the_same_vocabulary_gives_the_same_model(config: dict[str, object]) -> None:
    tokenizer = small_tokenizer()
    source, model = small_model(tokenizer, **config), fresh(tokenizer, **config)
    assert loss(model, tokenizer) != loss(source, tokenizer)
    assert take_over(Pretrained("source", source, tokenizer), model, tokenizer) == len(tokenizer)
    assert loss(model, tokenizer) == loss(source, tokenizer)
    weights = source.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("config", SHAPES, ids=["thesis", "other choices"])
def test_other_ids_of_the_same_tokens_give_the_same_loss(config: dict[str, object]) -> None:
    old, new = small_tokenizer(), shuffled_tokenizer()
    assert old.get_vocab() != new.get_vocab()
    source, model = small_model(old, **config), fresh(new, **config)
    assert take_over(Pretrained("source", source, old), model, new) == len(old)
    torch.testing.assert_close(loss(model, new), loss(source, old), rtol=1e-6, atol=0)


def test_an_extended_vocabulary_keeps_old_rows_and_begins_new_ones_afresh() -> None:
    old = small_tokenizer()
    new = extend_tokenizer(old, ["龘𠮷"])
    source, model = small_model(old), fresh(new)
    before = model.model.shared.weight.clone()
    assert take_over(Pretrained("source", source, old), model, new) == len(old) == len(new) - 2
    assert torch.equal(model.model.shared.weight[: len(old)], source.model.shared.weight)
    assert torch.equal(model.model.shared.weight[len(old) :], before[len(old) :])
    assert model.lm_head.weight is model.model.shared.weight


def test_a_smaller_vocabulary_takes_what_it_has() -> None:
    old, new = small_tokenizer(), train_tokenizer(["头痛三天了"])
    source, model = small_model(old), fresh(new)
    shared = set(old.get_vocab()) & set(new.get_vocab())
    assert 4 < len(shared) < len(new)
    assert take_over(Pretrained("source", source, old), model, new) == len(shared)
    for token in shared:
        row = model.model.shared.weight[new.convert_tokens_to_ids(token)]
        assert torch.equal(row, source.model.shared.weight[old.convert_tokens_to_ids(token)])


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_tokenizers_of_two_kinds_share_the_tokens_with_the_same_text(kind: str) -> None:
    old, new = small_tokenizer(), small_tokenizer(kind)
    source, model = small_model(old), fresh(new)
    before = model.model.shared.weight.clone()
    taken = take_over(Pretrained("source", source, old), model, new)
    rows = {index: new.decode([index]) for index in range(4, len(new))}
    for index, text in rows.items():
        row = model.model.shared.weight[index]
        same = text in old.get_vocab() and text not in [rows[other] for other in range(4, index)]
        expected = source.model.shared.weight[old.convert_tokens_to_ids(text)] if same else before[index]
        assert torch.equal(row, expected), text
    copied = {text for text in rows.values() if text in old.get_vocab()}
    assert taken == 4 + len(copied) > 14
    assert torch.equal(model.model.shared.weight[:4], source.model.shared.weight[:4])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_longer_texts_than_the_source_knew(positions: str) -> None:
    tokenizer = small_tokenizer()
    source = small_model(tokenizer, positions=positions)
    model = fresh(tokenizer, positions=positions, max_position_embeddings=POSITIONS + 16)
    take_over(Pretrained("source", source, tokenizer), model, tokenizer)
    assert loss(model, tokenizer) == loss(source, tokenizer)
    table, old = model.get_decoder().positions.weight, source.get_decoder().positions.weight
    assert len(table) == POSITIONS + 16
    assert torch.equal(table[:POSITIONS], old)


@pytest.fixture(scope="module")
def source(dataset: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model that has learned a little."""
    folder = tmp_path_factory.mktemp("source") / "source"
    overrides = [*tiny_run(dataset, tokenizer_folder), *SHORT, f"output={folder}", "model.encoder_layers=1"]
    return train(load_recipe(str(ROOT / "recipes/quickstart.yaml"), [*overrides, "training.max_steps=20"]))


@pytest.fixture
def fine_tuning(source: Path, dataset: Path, tmp_path: Path) -> Callable[..., Recipe]:
    """Return a recipe that begins with the source and says nothing of a shape, with overrides."""

    def make(*overrides: str) -> Recipe:
        file = tmp_path / "fine-tuning.yaml"
        file.write_text("training:\n  per_device_train_batch_size: 4\n  bf16: false\n", encoding="utf-8")
        lengths = ["data.max_question_length=96", "data.max_answer_length=80"]
        begin = [f"output={tmp_path / 'tuned'}", f"data.dataset={dataset}", f"model.from={source}"]
        tokenizer = f"data.tokenizer={source}"
        return load_recipe(str(file), [*begin, tokenizer, *lengths, *SHORT, "evaluation.questions=0", *overrides])

    return make


def test_a_run_begins_with_the_loss_of_its_source(
    fine_tuning: MakeRecipe, source: Path, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One batch of all pairs: the loss of the first step is that before anything was learned."""
    rows = load_split(dataset, "train").select(range(4))
    DatasetDict(train=rows, validation=rows, test=rows).save_to_disk(tmp_path / "four")
    recipe = fine_tuning(f"data.dataset={tmp_path / 'four'}", "model.dropout=0", "training.max_steps=1")
    assert not any(key.startswith("model.d") for key in recipe.given - {"model.dropout"})
    first = read_log(train(recipe))[0]
    model, tokenizer = load_model(source), load_tokenizer(source)
    inputs, labels = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in ids.to_pylist()], batch_first=True)
        for ids in Encoder(tokenizer).pairs(rows["question"], rows["answer"], 96, 80)
    )
    with torch.no_grad():
        expected = model(
            input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels.masked_fill(labels == 0, -100)
        ).loss
    assert first["loss"] == pytest.approx(expected.item(), rel=1e-6)
    vocabulary = len(tokenizer)
    assert (
        f"begins with {source}, and its vectors for {vocabulary:,} of {vocabulary:,} tokens" in capsys.readouterr().out
    )


def test_the_shape_comes_from_the_source_and_into_the_recipe(fine_tuning: MakeRecipe, tmp_path: Path) -> None:
    output = train(fine_tuning("model.dropout=0.25"))
    resolved = load_recipe(str(output / "recipe.yaml"))
    assert (resolved.model.d_model, resolved.model.d_ff, resolved.model.encoder_layers) == (32, 64, 1)
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    assert (config["d_model"], config["encoder_layers"], config["dropout"]) == (32, 1, 0.25)
    # The resolved recipe makes the same model once more.
    again = train(load_recipe(str(output / "recipe.yaml"), [f"output={tmp_path / 'again'}"]))
    assert (again / "model.safetensors").read_bytes() == (output / "model.safetensors").read_bytes()


def test_another_shape_is_refused_with_both(fine_tuning: MakeRecipe, source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        train(fine_tuning("model.d_model=64", "model.norm=pre", "model.attention_heads=4"))
    assert str(source) in str(error.value)
    assert "model.d_model is 32 there, not 64, model.norm is post there, not pre;" in str(error.value)
    assert not (tmp_path / "tuned").exists()


def test_a_run_is_resumed_without_its_source(fine_tuning: MakeRecipe, source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "copy")
    begin = (f"model.from={tmp_path / 'copy'}", f"data.tokenizer={tmp_path / 'copy'}", "model.dropout=0.1")
    output = train(fine_tuning(*begin))
    log, weights = read_log(output), (output / "model.safetensors").read_bytes()
    shutil.rmtree(output / "checkpoints" / "checkpoint-4")
    (output / "model.safetensors").unlink()
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UsageError, match=r"model\.d_model was 32, not 64"):
        train(fine_tuning(*begin, "model.d_model=64"), resume=True)
    train(fine_tuning(*begin), resume=True)
    assert read_log(output) == log
    assert (output / "model.safetensors").read_bytes() == weights


def test_what_cannot_be_begun_with_is_refused(fine_tuning: MakeRecipe, source: Path, tmp_path: Path) -> None:
    def refusal(folder: Path | str, *overrides: str) -> str:
        with pytest.raises(UsageError) as error:
            train(fine_tuning(f"model.from={folder}", *overrides))
        assert "\n" not in str(error.value)
        assert not (tmp_path / "tuned").exists()
        return str(error.value)

    assert "no model folder nowhere/model; " in refusal("nowhere/model")
    assert "nor can the Hub's model of that name be fetched" in refusal("nowhere/model")
    assert f"no model folder {tmp_path / 'nothing'}; make one with" in refusal(tmp_path / "nothing")
    assert "choose one" in refusal(source, "model.word_vectors=vectors.txt")
    assert "holds the model to begin with; name another" in refusal(source, f"output={source}")
    assert "holds the model to begin with" in refusal(source / "checkpoints/checkpoint-4", f"output={source}")
    assert "holds a marian model, not one of wenzhen's" in refusal(save_marian_folder(tmp_path / "marian"))
    assert "lacks config.json" in refusal(ROOT / "tests")
    export_model(source, tmp_path / "export", "float32")
    assert "exported to CTranslate2, which PyTorch cannot load" in refusal(tmp_path / "export")
    tokenizer = small_tokenizer()
    folder = save_model_folder(small_model(tokenizer), tokenizer, tmp_path / "other")
    save_tokenizer(extend_tokenizer(tokenizer, ["龘"]), folder)
    assert "tokens, its model" in refusal(folder)
    shutil.copytree(source, tmp_path / "code")
    change_json(tmp_path / "code" / "config.json", model_type="foreign", auto_map={"AutoConfig": "foreign.Config"})
    (tmp_path / "code" / "foreign.py").write_text("raise SystemExit('foreign code ran')\n", encoding="utf-8")
    assert "holds a foreign model, not one of wenzhen's" in refusal(tmp_path / "code")


def test_new_records_with_new_characters_through_the_commands(source: Path, dataset: Path, tmp_path: Path) -> None:
    """As a user does it: extend the tokenizer of a model, and go on training the model with it."""
    new = load_split(dataset, "train").map(lambda row: {"answer": f"𠮷龘：{row['answer']}"}, keep_in_memory=True)
    DatasetDict(train=new, validation=new.select(range(8)), test=new.select(range(8))).save_to_disk(tmp_path / "new")

    def command(*words: object) -> str:
        program = start([str(word) for word in words], tmp_path / "command")
        assert program.wait() == 0, program.said()
        return program.printed()

    extend = ("--dataset", tmp_path / "new", "--output", tmp_path / "tokenizer", "--extend", source)
    assert "are new" in command("data_scripts/train_tokenizer.py", *extend)
    (tmp_path / "tune.yaml").write_text(
        f"output: {tmp_path / 'tuned'}\n"
        f"data: {{dataset: {tmp_path / 'new'}, tokenizer: {tmp_path / 'tokenizer'}}}\n"
        f"model: {{from: {source}, dropout: 0}}\n"
        "training: {bf16: false, max_steps: 30, eval_steps: 30, logging_steps: 10, learning_rate: 5.0e-3}\n"
        "evaluation: {questions: 0, examples: 1}\n",
        encoding="utf-8",
    )
    printed = command("-m", "wenzhen", "train", tmp_path / "tune.yaml")
    old, size = len(load_tokenizer(source)), len(load_tokenizer(tmp_path / "tokenizer"))
    assert size >= old + 2
    assert f"begins with {source}, and its vectors for {old:,} of {size:,} tokens" in printed
    losses = [entry["loss"] for entry in read_log(tmp_path / "tuned") if "loss" in entry]
    assert losses[-1] < losses[0] - 0.5
    lines = (tmp_path / "tuned" / "training_log.jsonl").read_text(encoding="utf-8").splitlines()
    assert "𠮷龘" in [entry for entry in map(json.loads, lines) if "examples" in entry][-1]["examples"][0]["reference"]
    assert load_pretrained(str(tmp_path / "tuned")).model.config.vocab_size == size
