"""That the settings of a recipe's training do what they say, in whole runs of seconds."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import DatasetDict
from safetensors.torch import load_file
from transformers import Seq2SeqTrainingArguments, set_seed

from wenzhen.corpus.loading import load_split
from wenzhen.models.loading import load_model
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import Recipe
from wenzhen.tokenization import Encoder, load_tokenizer
from wenzhen.training import run
from wenzhen.training.arguments import training_arguments
from wenzhen.training.initial_model import build_model
from wenzhen.training.log import read_log
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
QUIET = ("evaluation.examples=0", "training.logging_steps=1")
# One step on four pairs, with nothing random in it.
ONE_STEP = ("model.dropout=0", "training.max_steps=1", "training.per_device_train_batch_size=4")


@pytest.fixture
def four(dataset: Path, tmp_path: Path) -> Path:
    """Return a dataset of four pairs: with batches of four, every step learns from all of them."""
    rows = load_split(dataset, "train").select(range(4))
    DatasetDict(train=rows, validation=rows, test=rows).save_to_disk(tmp_path / "four")
    return tmp_path / "four"


def untrained(recipe: Recipe) -> WenzhenForConditionalGeneration:
    """Return the model that a run of the recipe begins with."""
    set_seed(recipe.seed)
    return build_model(recipe, load_tokenizer(Path(recipe.data.tokenizer))).eval()


def batch_of(recipe: Recipe) -> dict[str, torch.Tensor]:
    """Return all training pairs of a recipe as a batch."""
    split = load_split(Path(recipe.data.dataset), "train")
    encoder = Encoder(load_tokenizer(Path(recipe.data.tokenizer)))
    inputs, labels = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in rows.to_pylist()], batch_first=True)
        for rows in encoder.pairs(list(split["question"]), list(split["answer"]), 96, 80)
    )
    mask = (inputs != 0).long()
    return {"input_ids": inputs, "attention_mask": mask, "labels": labels.masked_fill(labels == 0, -100)}


def losses_of(model: WenzhenForConditionalGeneration, batch: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Return the mean over tokens of -log p(label), and of the mean of -log p over the vocabulary."""
    with torch.no_grad():
        log_p = model(**batch).logits.double().log_softmax(-1)
    real = batch["labels"] != -100
    nll = -log_p[real].gather(1, batch["labels"][real].unsqueeze(1)).mean()
    return nll.item(), -log_p[real].mean().item()


def rates(schedule: str, warmup: str) -> list[float]:
    """Return the learning rates of 8 steps, over the largest, as the schedules are defined."""
    total, rise = 8, {"0": 0, "3": 3, "0.25": 2}[warmup]
    factors = {
        "constant": lambda step: 1.0,
        "constant_with_warmup": lambda step: 1.0,
        "linear": lambda step: (total - step) / (total - rise),
        "cosine": lambda step: (1 + math.cos(math.pi * (step - rise) / (total - rise))) / 2,
        "inverse_sqrt": lambda step: math.sqrt((rise or 10_000) / (step + (0 if rise else 10_000))),
    }
    return [step / rise if step < rise else factors[schedule](step) for step in range(total)]


@pytest.mark.parametrize(
    ("schedule", "warmup"),
    [
        ("constant", "0"),
        ("constant_with_warmup", "3"),
        ("linear", "0"),
        ("linear", "3"),
        ("linear", "0.25"),
        ("cosine", "3"),
        ("inverse_sqrt", "3"),
    ],
)
def test_learning_rates_by_hand(
    make_recipe: MakeRecipe, four: Path, tmp_path: Path, schedule: str, warmup: str
) -> None:
    settings = (f"training.lr_scheduler_type={schedule}", f"training.warmup_steps={warmup}")
    steps = ("training.max_steps=8", "training.eval_steps=8", "training.learning_rate=0.004")
    recipe = make_recipe(f"output={tmp_path / 'model'}", f"data.dataset={four}", *QUIET, *steps, *settings)
    logged = [entry["learning_rate"] for entry in read_log(train(recipe)) if "loss" in entry]
    assert logged == pytest.approx([0.004 * rate for rate in rates(schedule, warmup)], rel=1e-9)


def test_label_smoothing_by_hand(make_recipe: MakeRecipe, four: Path, tmp_path: Path) -> None:
    """(1 - ε)·nll + ε·mean over the vocabulary in training, and plain nll in validation."""
    recipe = make_recipe(
        f"output={tmp_path / 'model'}",
        f"data.dataset={four}",
        *QUIET,
        *ONE_STEP,
        "training.label_smoothing_factor=0.3",
        "training.learning_rate=1e-2",
        "training.warmup_steps=0",
    )
    batch = batch_of(recipe)
    nll, spread = losses_of(untrained(recipe), batch)
    output = train(recipe)
    logged, measured = read_log(output)
    assert logged["loss"] == pytest.approx(0.7 * nll + 0.3 * spread, rel=1e-5)
    trained, _ = losses_of(load_model(output).eval(), batch)
    assert measured["eval_loss"] == pytest.approx(trained, rel=1e-5)
    assert measured["eval_perplexity"] == pytest.approx(math.exp(trained), rel=1e-4)
    assert trained < nll - 0.01


@pytest.mark.parametrize("largest", [0.0, 0.25, 1e6], ids=["no clipping", "clipped", "not reached"])
def test_gradient_clipping_by_the_size_of_the_update(
    make_recipe: MakeRecipe, four: Path, tmp_path: Path, largest: float
) -> None:
    """With ε far above every gradient, Adam's first step is that of plain descent: gradient · rate / ε."""
    recipe = make_recipe(
        f"output={tmp_path / 'model'}",
        f"data.dataset={four}",
        *QUIET,
        *ONE_STEP,
        "training.adam_epsilon=1e6",
        "training.learning_rate=1e6",
        "training.lr_scheduler_type=constant",
        "training.warmup_steps=0",
        f"training.max_grad_norm={largest}",
    )
    model = untrained(recipe)
    model(**batch_of(recipe)).loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients.values()))
    assert norm > 0.5
    output = train(recipe)
    weights = load_file(output / "model.safetensors")
    share = min(1.0, largest / norm) if largest else 1.0
    updates = {name: parameter.data - weights[name] for name, parameter in model.named_parameters()}
    size = math.sqrt(sum(update.double().square().sum().item() for update in updates.values()))
    assert size == pytest.approx(share * norm, rel=1e-3)
    for name, update in updates.items():
        torch.testing.assert_close(update, share * gradients[name], rtol=1e-3, atol=1e-5)
    # What is logged is the norm before clipping.
    assert read_log(output)[0]["grad_norm"] == pytest.approx(norm, rel=1e-4)


# Rates that grow absurd: the first measurements improve, later ones do not.
GETTING_WORSE = (
    "training.lr_scheduler_type=constant_with_warmup",
    "training.warmup_steps=12",
    "training.learning_rate=1",
    "training.eval_steps=1",
    "training.max_steps=12",
)


def test_early_stopping_waits_as_long_as_it_is_told(
    make_recipe: MakeRecipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = train(make_recipe(f"output={tmp_path / 'whole'}", *QUIET, *GETTING_WORSE))
    losses = [entry["eval_loss"] for entry in read_log(whole) if "eval_loss" in entry]
    assert len(losses) == 12
    waited = 0
    for stop, loss in enumerate(losses[1:], 2):
        waited = 0 if loss < min(losses[: stop - 1]) else waited + 1
        if waited == 3:
            break
    assert waited == 3 and stop < 12
    best = losses.index(min(losses)) + 1
    model = f"model of step {best}, the best on validation (loss {min(losses):.4f})"
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == model and "stopped early" not in " ".join(said)
    early = train(
        make_recipe(f"output={tmp_path / 'early'}", *QUIET, *GETTING_WORSE, "training.early_stopping_patience=3")
    )
    assert read_log(early) == [entry for entry in read_log(whole) if entry["step"] <= stop]
    assert losses.index(min(losses[:stop])) + 1 == best
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"stopped early after step {stop} of 12: the validation loss fell no more",
        model,
    ]


def test_early_stopping_survives_an_interruption(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    """Resumed from the checkpoint at which it stopped, or from one or two measurements before."""
    settings = (*QUIET, *GETTING_WORSE, "training.early_stopping_patience=3", "training.save_total_limit=5")
    recipe = make_recipe(f"output={tmp_path / 'model'}", *settings)
    output = train(recipe)
    log, weights = (output / "training_log.jsonl").read_bytes(), (output / "model.safetensors").read_bytes()
    last = read_log(output)[-1]["step"]
    # Each leaves the folder as it was.
    for back in (0, 1, 2):
        for step in range(last - back + 1, last + 1):
            (output / "checkpoints" / f"checkpoint-{step}" / "trainer_state.json").unlink()
        (output / "model.safetensors").unlink()
        train(recipe, resume=True)
        assert (output / "training_log.jsonl").read_bytes() == log, back
        assert (output / "model.safetensors").read_bytes() == weights, back


def test_validation_subset_is_fixed_and_exactly_measured(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[list[Any]] = []
    make_trainer = run.make_trainer

    def keep(recipe: Recipe, *args: Any) -> Any:
        trainer = make_trainer(recipe, *args)
        measured.append([(row["input_ids"], row["labels"]) for row in trainer.eval_dataset])
        return trainer

    monkeypatch.setattr(run, "make_trainer", keep)
    short = (*QUIET, "training.max_steps=1")

    def measure(name: str, *settings: str) -> tuple[list[Any], float]:
        output = train(make_recipe(f"output={tmp_path / name}", *short, *settings))
        return measured[-1], read_log(output)[-1]["eval_loss"]

    everything, _ = measure("all")
    assert len(everything) == 17
    five, loss = measure("five", "data.max_validation_samples=5")
    assert "5 to validate" in capsys.readouterr().out
    assert len(five) == 5 and all(pair in everything for pair in five)
    assert five != everything[:5]
    # Neither batches nor what else a run does change it.
    settings = ("data.max_samples=20", "training.per_device_eval_batch_size=2", "evaluation.examples=2")
    assert measure("again", "data.max_validation_samples=5", *settings)[0] == five
    assert measure("many", "data.max_validation_samples=100")[0] == everything
    recipe = make_recipe()
    batch = {
        "input_ids": torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids, _ in five], batch_first=True),
        "labels": torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(ids) for _, ids in five], batch_first=True, padding_value=-100
        ),
    }
    batch["attention_mask"] = (batch["input_ids"] != 0).long()
    assert recipe.data.max_validation_samples == -1
    assert loss == pytest.approx(losses_of(load_model(tmp_path / "five").eval(), batch)[0], rel=1e-5)


def test_padding_to_a_multiple_changes_nothing_but_lengths(
    make_recipe: MakeRecipe, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: set[int] = set()
    forward = WenzhenForConditionalGeneration.forward

    def keep(self: WenzhenForConditionalGeneration, input_ids: Any = None, labels: Any = None, **kwargs: Any) -> Any:
        if labels is not None:
            lengths.update((input_ids.shape[1], labels.shape[1]))
        return forward(self, input_ids=input_ids, labels=labels, **kwargs)

    monkeypatch.setattr(WenzhenForConditionalGeneration, "forward", keep)
    short = (*QUIET, f"data.dataset={four}", "training.max_steps=3", "training.eval_steps=3", "model.dropout=0")
    plain = train(make_recipe(f"output={tmp_path / 'plain'}", *short))
    assert any(length % 64 for length in lengths)
    lengths.clear()
    padded = train(make_recipe(f"output={tmp_path / 'padded'}", *short, "training.pad_to_multiple_of=64"))
    assert lengths and not any(length % 64 for length in lengths)
    for ours, theirs in zip(read_log(padded), read_log(plain), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    # 96 tokens of a question, padded to the next multiple.
    config = json.loads((padded / "config.json").read_text(encoding="utf-8"))
    assert config["max_position_embeddings"] == 128


def test_a_compiled_network_learns_the_same(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a backend that traces the network and generates no code."""

    def arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
        made = training_arguments(recipe)
        if made.torch_compile:
            made.torch_compile_backend = "aot_eager"
        return made

    monkeypatch.setattr(run, "training_arguments", arguments)
    # transformers sets it for good.
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "no")
    short = ("training.logging_steps=1", "training.max_steps=4", "training.eval_steps=2", "model.dropout=0")
    short += ("training.pad_to_multiple_of=64", "evaluation.examples=1")
    short += ("model.encoder_layers=1", "model.decoder_layers=1")
    torch._dynamo.utils.counters.clear()
    plain = train(make_recipe(f"output={tmp_path / 'plain'}", *short))
    assert not torch._dynamo.utils.counters["stats"]
    compiled = train(make_recipe(f"output={tmp_path / 'compiled'}", *short, "training.torch_compile=true"))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for ours, theirs in zip(read_log(compiled), read_log(plain), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    names = load_file(plain / "model.safetensors").keys()
    assert load_file(compiled / "model.safetensors").keys() == names
    lines = (compiled / "training_log.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum("examples" in json.loads(line) for line in lines) == 2
