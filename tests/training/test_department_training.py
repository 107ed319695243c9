"""Runs of seconds that learn to tell departments, and what is measured of them."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
import torch

from helpers import ROOT
from small_models import small_model, small_tokenizer
from wenzhen.answering.departments import DepartmentGuess, DepartmentGuesser
from wenzhen.cli import main
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import DEPARTMENTS
from wenzhen.errors import UsageError
from wenzhen.models.loading import load_classifier, load_model
from wenzhen.models.transformer.modeling_transformer import WenzhenForSequenceClassification
from wenzhen.recipe import Data, Recipe, load_recipe
from wenzhen.tokenization import load_tokenizer
from wenzhen.training.batching import encode_split, hash_tokens
from wenzhen.training.log import read_log
from wenzhen.training.output import is_unfinished
from wenzhen.training.pretrained import Pretrained, take_over
from wenzhen.training.run import train

SHORT = ("training.max_steps=8", "training.eval_steps=4", "training.logging_steps=4", "evaluation.questions=6")


@pytest.fixture(scope="module")
def recipe_for(dataset: Path, tokenizer_folder: Path, model_folder: Path) -> Callable[..., Recipe]:
    """Return the departments' recipe for a run of seconds, which begins with the untrained model."""

    def make(output: Path, *overrides: str) -> Recipe:
        data = (f"data.dataset={dataset}", f"data.tokenizer={tokenizer_folder}", f"model.from={model_folder}")
        file = str(ROOT / "recipes/quickstart-departments.yaml")
        return load_recipe(file, [f"output={output}", "data.max_question_length=96", *data, *SHORT, *overrides])

    return make


@pytest.fixture(scope="module")
def trained(recipe_for: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(recipe_for(tmp_path_factory.mktemp("departments") / "departments"))


@pytest.fixture(scope="module")
def guesser(trained: Path) -> DepartmentGuesser:
    return DepartmentGuesser(trained)


def test_a_run_leaves_a_classifier_of_the_datasets_departments(trained: Path) -> None:
    assert not is_unfinished(trained)
    assert not (trained / "generation_config.json").exists()
    assert (trained / "figures/loss.png").is_file()
    model = load_classifier(trained)
    assert list(model.config.id2label.values()) == list(DEPARTMENTS)
    assert (model.config.d_model, model.config.encoder_layers) == (32, 2)
    saved = load_recipe(str(trained / "recipe.yaml"))
    assert saved.task == "department"
    assert not any(key.startswith(("generation.", "model.decoder_layers")) for key, _ in saved.items())


def test_a_run_that_was_cut_off_goes_on_to_the_same_weights(
    trained: Path, recipe_for: Callable[..., Recipe], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "departments"))
    (folder / "model.safetensors").unlink()
    shutil.rmtree(folder / "checkpoints/checkpoint-8")
    assert is_unfinished(folder)
    with pytest.raises(UsageError, match="its training is unfinished"):
        DepartmentGuesser(folder)
    train(recipe_for(folder), resume=True)
    assert (folder / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert read_log(folder) == read_log(trained)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="task was department, not answer"):
        train(load_recipe(str(ROOT / "recipes/quickstart.yaml"), [f"output={folder}"]), resume=True)


def test_the_logged_loss_and_accuracy_are_the_evaluators(trained: Path, tmp_path: Path) -> None:
    best = min((entry for entry in read_log(trained) if "eval_loss" in entry), key=lambda entry: entry["eval_loss"])
    words = ["evaluate", str(trained), "--split", "validation", "--batch-size", "5", "--output", str(tmp_path)]
    assert main(words) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["loss"] == pytest.approx(best["eval_loss"], rel=1e-4)
    assert metrics["accuracy"] == pytest.approx(best["eval_accuracy"])
    assert set(metrics["floors"]) == {"majority", "nearest_bm25"}
    assert (tmp_path / "figures/confusion.png").read_bytes().startswith(b"\x89PNG")


def test_questions_of_ones_own_need_their_department(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.jsonl"
    rows = [{"question": "孩子发烧", "department": "儿科"}, {"question": "胃疼", "department": "内科"}]
    own.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["evaluate", str(trained), "--output", str(tmp_path / "out")]
    assert main([*words, "--file", str(own), "--no-floors"]) == 0
    assert "2 questions of own.jsonl" in capsys.readouterr().out
    own.write_text('{"question": "牙疼", "department": "牙科"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="is 牙科, and the classifier knows 男科, 内科"):
        main([*words, "--file", str(own)])
    with pytest.raises(UsageError, match="--decoding is how answers are written"):
        main([*words, "--decoding", "beam"])


@pytest.mark.parametrize(
    "words",
    [
        ["answer", "{folder}", "头疼怎么办？"],
        ["export", "{folder}", "--output", "{folder}-ct2"],
        ["push", "{folder}", "tester/departments"],
        ["compare", "{folder}", "{folder}/../other"],
        ["train", "quickstart", "model.from={folder}", "output={folder}-2"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_model_that_answers_refuses_a_classifier(
    trained: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    other = trained.parent / "other"
    if not other.exists():
        shutil.copytree(trained, other)
    with pytest.raises(UsageError, match="holds a classifier of departments, which writes no answers"):
        main([word.format(folder=trained) for word in words])


def test_a_model_that_answers_is_no_classifier(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no classifier of departments; train one"):
        DepartmentGuesser(model_folder)
    with pytest.raises(UsageError, match="no model folder"):
        DepartmentGuesser(tmp_path / "nowhere")
    assert load_model(model_folder).can_generate()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.family=recurrent", "the task department takes a transformer, and the recipe's network is recurrent"),
        ("model.decoder_layers=2", "model.decoder_layers is a setting of the task answer, and the recipe's is depart"),
        ("generation.num_beams=3", "generation.num_beams is a setting of the task answer"),
        ("task=treatment", "task must be answer or department, got 'treatment'"),
    ],
)
def test_settings_that_mean_nothing_to_the_task_are_refused(
    recipe_for: Callable[..., Recipe], tmp_path: Path, override: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        recipe_for(tmp_path, override)


@pytest.mark.parametrize("choices", [{}, {"tie_word_embeddings": False, "positions": "learned", "norm": "pre"}])
def test_the_encoder_of_a_model_that_answers_is_taken_over_whole(choices: dict[str, object]) -> None:
    tokenizer = small_tokenizer()
    source = small_model(tokenizer, **choices)
    torch.manual_seed(1)
    classifier = WenzhenForSequenceClassification(source.config)
    last = classifier.classifier.weight.clone()
    assert take_over(Pretrained("source", source, tokenizer), classifier, tokenizer) == len(tokenizer)
    theirs, ours = source.model.encoder.state_dict(), classifier.encoder.state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    assert torch.equal(classifier.classifier.weight, last)


def test_another_department_is_other_content(dataset: Path, tokenizer_folder: Path) -> None:
    split, tokenizer = load_split(dataset, "validation"), load_tokenizer(tokenizer_folder)
    data = Data(dataset="", tokenizer="")
    encoded = encode_split(split, tokenizer, data, "department")
    assert encoded["labels"] == split["department"]
    assert encoded["input_ids"] == encode_split(split, tokenizer, data)["input_ids"]
    first = (encoded["labels"][0] + 1) % len(DEPARTMENTS)
    changed = encoded.map(lambda _, row: {"labels": first} if row == 0 else {}, with_indices=True)
    assert hash_tokens(changed) != hash_tokens(encoded) == hash_tokens(encoded.select(range(len(encoded))))


def test_guesses_of_many_are_those_of_each(guesser: DepartmentGuesser, dataset: Path) -> None:
    rows = load_split(dataset, "test")["question"][:70]
    alone = [guesser.guess([question])[0] for question in rows]
    together = guesser.guess(rows)
    for one, same in zip(alone, together, strict=True):
        assert dict(one.ranking) == pytest.approx(dict(same.ranking), abs=1e-5)
        assert math.fsum(probability for _, probability in one.ranking) == pytest.approx(1)
        assert [p for _, p in one.ranking] == sorted((p for _, p in one.ranking), reverse=True)
        assert (one.name, one.probability) == one.ranking[0]
    assert guesser.guess([]) == []


def test_a_question_beyond_the_classifiers_length_is_read_to_there(guesser: DepartmentGuesser) -> None:
    # The last of 96 tokens is the end.
    assert guesser.guess(["头" * 95 + "疼" * 200]) == guesser.guess(["头" * 95])


def test_many_threads_get_what_one_gets(guesser: DepartmentGuesser) -> None:
    questions = [f"{'咳' * number}，怎么办？" for number in range(1, 9)]
    expected = [guesser.guess([question])[0] for question in questions]
    found: dict[int, list[DepartmentGuess]] = {}

    def ask(number: int) -> None:
        found[number] = [guesser.guess([questions[number]])[0] for _ in range(10)]

    threads = [Thread(target=ask, args=(number,)) for number in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == [expected[number]] * 10 for number in range(len(questions)))
