"""Runs that are interrupted, damaged and starved: what they leave, and that they go on exactly."""

import gc
import io
import json
import logging
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import wenzhen.training.run as run_module
from helpers import ROOT, tiny_run
from wenzhen.corpus.loading import load_split
from wenzhen.errors import RunError, UsageError
from wenzhen.recipe import Recipe, load_recipe
from wenzhen.training.checkpoints import CheckpointFolder
from wenzhen.training.durable import DurableTrainer
from wenzhen.training.interruption import Interrupted
from wenzhen.training.log import read_log
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
# Five steps make an epoch; logging and measuring fall on other steps.
RUN = (
    "data.max_samples=40",
    "data.max_validation_samples=8",
    "data.max_answer_length=32",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.dropout=0.1",
    "training.per_device_train_batch_size=8",
    "training.max_steps=12",
    "training.eval_steps=4",
    "training.logging_steps=3",
    "training.lr_scheduler_type=linear",
    "training.warmup_steps=3",
    "evaluation.examples=0",
)
# A rate that rises far too high: every measurement is worse than the one before it.
TOO_FAST = (
    "training.learning_rate=10",
    "training.warmup_steps=24",
    "training.lr_scheduler_type=constant_with_warmup",
)
# What a run leaves that must not depend on its interruptions.
EXACT = ("model.safetensors", "training_log.jsonl")
EXACT_STATE = ("model.safetensors", "rng_state.pth", "unlogged_loss.json")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Leave out what takes longer than these runs: the picture, and looking for garbage in what is imported."""
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "draw_losses", lambda _, file: (file.parent.mkdir(exist_ok=True), file.touch()))
        yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def run(dataset: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of an uninterrupted run."""
    output = tmp_path_factory.mktemp("run") / "model"
    overrides = [*tiny_run(dataset, tokenizer_folder), f"output={output}", *RUN]
    return train(load_recipe(str(ROOT / "recipes/quickstart.yaml"), overrides))


def before_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[DurableTrainer], None]) -> None:
    """Do something in the middle of a step, once."""
    original = DurableTrainer.training_step

    def training_step(self, *args, **kwargs):
        if self.state.global_step + 1 == step:
            monkeypatch.setattr(DurableTrainer, "training_step", original)
            act(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(DurableTrainer, "training_step", training_step)


def send(number: int) -> Callable[..., None]:
    return lambda *_: os.kill(os.getpid(), number)


def steps(output: Path) -> list[int]:
    return CheckpointFolder(output / "checkpoints").steps()


def assert_same_files(output: Path, run: Path) -> None:
    """Check that a run gave the same model and the same log."""
    for name in EXACT:
        assert (output / name).read_bytes() == (run / name).read_bytes(), name


def assert_same(output: Path, run: Path) -> None:
    """Check that an interrupted run has come to what the uninterrupted one came to, to the last byte."""
    assert_same_files(output, run)
    places = [folder / "checkpoints" / "checkpoint-12" for folder in (output, run)]
    for name in EXACT_STATE:
        assert (places[0] / name).read_bytes() == (places[1] / name).read_bytes(), name
    for name in ("optimizer.pt", "scheduler.pt"):
        states = [torch.load(place / name, weights_only=True) for place in places]
        assert flat(states[0]) == flat(states[1])
    assert not [path.name for path in (output / "checkpoints").iterdir() if path.name.startswith(".")]


def flat(state: object) -> object:
    """Return a state with its tensors as lists, which can be compared."""
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    return [flat(value) for value in state] if isinstance(state, list) else state


def test_a_run_goes_on_over_its_own_pairs_alone(
    make_recipe: MakeRecipe, tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tokenizer in the place of the first: the same path, other tokens."""
    tokenizer = shutil.copytree(tokenizer_folder, tmp_path / "tokenizer")
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN, f"data.tokenizer={tokenizer}")
    before_step(monkeypatch, 5, send(signal.SIGTERM))
    with pytest.raises(Interrupted):
        train(recipe)
    file = tokenizer / "tokenizer.json"
    original, begun = file.read_text(encoding="utf-8"), (tmp_path / "model" / "recipe.yaml").read_bytes()
    vocabulary = json.loads(original)
    ids = vocabulary["model"]["vocab"]
    first, second = list(ids)[10:12]
    ids[first], ids[second] = ids[second], ids[first]
    file.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    recipe.training.per_device_eval_batch_size = 3
    with pytest.raises(UsageError, match="checkpoint-5 is of another run: its pairs, its tokens or its settings"):
        train(recipe, resume=True)
    # What was refused has changed nothing.
    assert (tmp_path / "model" / "recipe.yaml").read_bytes() == begun
    file.write_text(original, encoding="utf-8")
    train(recipe, resume=True)


def test_an_earlier_model_stays_where_the_disk_has_no_room_for_another(
    make_recipe: MakeRecipe, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = shutil.copytree(run, tmp_path / "model")
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    monkeypatch.setattr(CheckpointFolder, "room", lambda _: 0)
    # Larger than all that goes.
    recipe = make_recipe(f"output={output}", *RUN, "model.d_model=256")
    with pytest.raises(RunError, match=r"has room for 0\.0 MB, and a checkpoint takes about"):
        train(recipe, overwrite=True)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before


# The first step, in the middle, where measuring is due, at the end of an epoch, the last step.
@pytest.mark.parametrize("step", [1, 7, 8, 10, 12])
def test_a_run_that_is_stopped_and_resumed_is_the_run_that_was_not(
    make_recipe: MakeRecipe, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    before_step(monkeypatch, step, send(signal.SIGTERM))
    with pytest.raises(Interrupted, match=f"stopped by SIGTERM after step {step}, whose checkpoint is saved") as stop:
        train(recipe)
    assert (stop.value.number, stop.value.step) == (signal.SIGTERM, step)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert steps(tmp_path / "model")[-1] == step
    # The state of a run names no folder.
    (tmp_path / "model").rename(tmp_path / "moved")
    recipe.output = str(tmp_path / "moved")
    assert_same(train(recipe, resume=True), run)
    # Killed when all was done but the model.
    (tmp_path / "moved" / "model.safetensors").unlink()
    assert_same(train(recipe, resume=True), run)


def test_a_run_that_is_stopped_while_it_measures_measures_when_it_is_resumed(
    make_recipe: MakeRecipe, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN)
    with monkeypatch.context() as patch:
        original = DurableTrainer.evaluate

        def evaluate(self, *args, **kwargs):
            if self.state.global_step == 8:
                send(signal.SIGINT)()
            return original(self, *args, **kwargs)

        patch.setattr(DurableTrainer, "evaluate", evaluate)
        with pytest.raises(Interrupted, match="SIGINT after step 8"):
            train(recipe)
    assert max(entry["step"] for entry in read_log(tmp_path / "model") if "eval_loss" in entry) == 4
    assert_same(train(recipe, resume=True), run)


def test_early_stopping_is_resumed_where_it_was(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*RUN, *TOO_FAST, "training.max_steps=24", "training.early_stopping_patience=2")
    whole = train(make_recipe(f"output={tmp_path / 'whole'}", *settings))
    last = steps(whole)[-1]
    assert last == 12
    for step in (last - 3, last):
        output = tmp_path / str(step)
        recipe = make_recipe(f"output={output}", *settings)
        before_step(monkeypatch, step, send(signal.SIGTERM))
        with pytest.raises(Interrupted):
            train(recipe)
        train(recipe, resume=True)
        assert_same_files(output, whole)
        # Ended, but killed before the model was written.
        (output / "model.safetensors").unlink()
        train(recipe, resume=True)
        assert steps(output)[-1] == last
        assert_same_files(output, whole)


def test_a_broken_checkpoint_is_skipped_and_the_run_still_the_same(
    make_recipe: MakeRecipe, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    shutil.copytree(run, output)
    recipe = make_recipe(f"output={output}", *RUN)
    (output / "model.safetensors").unlink()
    assert steps(output) == [8, 12]
    weights = output / "checkpoints" / "checkpoint-12" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    shutil.copytree(output / "checkpoints" / "checkpoint-8", output / "checkpoints" / "checkpoint-9")
    (output / "checkpoints" / "checkpoint-9" / "manifest.json").unlink()
    train(recipe, resume=True)
    said = capsys.readouterr().err
    assert "checkpoint-12: model.safetensors was altered\n" in said
    assert "checkpoint-9: it has no manifest.json, so it was never finished\n" in said
    assert_same(output, run)

    (output / "model.safetensors").unlink()
    for step in steps(output):
        (output / "checkpoints" / f"checkpoint-{step}" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(UsageError, match=r"no checkpoint in .* is whole; start the run again with --overwrite"):
        train(recipe, resume=True)


def test_a_broken_best_checkpoint_gives_way_to_the_next_best(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    settings = (*RUN, *TOO_FAST, "training.save_total_limit=9")

    def spoil(trainer: DurableTrainer) -> None:
        state = trainer.state
        weights = output / "checkpoints" / f"checkpoint-{state.best_global_step}" / "model.safetensors"
        content = weights.read_bytes()
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    before_step(monkeypatch, 12, spoil)
    train(make_recipe(f"output={output}", *settings))
    losses = {entry["step"]: entry["eval_loss"] for entry in read_log(output) if "eval_loss" in entry}
    best, second = sorted(losses, key=losses.get)[:2]
    said = capsys.readouterr().err
    assert f"checkpoint {best}, the best one, is broken: model.safetensors was altered. " in said
    assert f"The model is that of step {second}, with a validation loss of {losses[second]:.4f}" in said
    taken = output / "checkpoints" / f"checkpoint-{second}" / "model.safetensors"
    assert (output / "model.safetensors").read_bytes() == taken.read_bytes()


def test_the_newest_and_the_best_checkpoint_stay(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    settings = (*RUN, *TOO_FAST, "training.save_total_limit=1", "training.eval_steps=2")
    output = train(make_recipe(f"output={tmp_path / 'model'}", *settings))
    losses = {entry["step"]: entry["eval_loss"] for entry in read_log(output) if "eval_loss" in entry}
    assert min(losses, key=losses.get) == 2
    assert steps(output) == [2, 12]


def test_a_full_disk_is_named_and_costs_nothing_that_was_saved(
    make_recipe: MakeRecipe, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # From here on the system takes no file beyond a size, in the weights, then in the optimizer's state.
    for step, largest in ((6, 100_000), (10, 300_000)):
        before_step(
            monkeypatch, step, lambda _, size=largest: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        )
        try:
            with pytest.raises(RunError) as failure:
                train(recipe, resume=step > 6)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        due, kept = step // 4 * 4 + 4, step // 4 * 4
        message = str(failure.value)
        assert message.startswith(f"checkpoint {due} could not be written: it takes about ")
        assert message.endswith(f"Checkpoint {kept} is intact: the same command with --resume goes on from there")
        assert "\n" not in message
        left = sorted(path.name for path in (tmp_path / "model" / "checkpoints").iterdir())
        assert left == [f"checkpoint-{number}" for number in range(4, due, 4)]
    assert_same(train(recipe, resume=True), run)


def test_too_little_room_is_said_before_the_first_step(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN)
    monkeypatch.setattr(CheckpointFolder, "room", lambda _: 100_000)
    with pytest.raises(RunError, match=r"has room for 0\.1 MB, and a checkpoint takes about 0\.6 MB; make room"):
        train(recipe)
    assert not (tmp_path / "model" / "training_log.jsonl").exists()

    def stop(_: DurableTrainer) -> None:
        raise RunError("enough")

    monkeypatch.setattr(CheckpointFolder, "room", lambda _: 1_500_000)
    before_step(monkeypatch, 1, stop)
    with pytest.raises(RunError, match="enough"):
        train(recipe, overwrite=True)
    assert "room for 2 more checkpoints of about 0.6 MB, and the run may keep 4" in capsys.readouterr().err


def spoil_loss(number: float, passes: tuple[int, ...]) -> Callable[[DurableTrainer], None]:
    """Return what makes the loss of some of the next forward passes another number."""

    def spoil(trainer: DurableTrainer) -> None:
        original, calls = trainer.compute_loss, iter(range(99))
        trainer.compute_loss = lambda *args, **kwargs: (
            original(*args, **kwargs) * (number if next(calls) in passes else 1.0)
        )

    return spoil


@pytest.mark.parametrize(("number", "word"), [(float("nan"), "nan"), (float("inf"), "inf")])
def test_a_loss_that_is_no_number_stops_the_step_and_names_its_pairs(
    make_recipe: MakeRecipe,
    run: Path,
    dataset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: float,
    word: str,
) -> None:
    output = tmp_path / "model"
    settings = (*RUN, "training.per_device_train_batch_size=4", "training.gradient_accumulation_steps=2")
    recipe = make_recipe(f"output={output}", *settings)
    batches: list[torch.Tensor] = []
    original = DurableTrainer.training_step

    def training_step(self, model, inputs, *args, **kwargs):
        batches.append(inputs["labels"])
        return original(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(DurableTrainer, "training_step", training_step)
    before_step(monkeypatch, 10, spoil_loss(number, passes=(1,)))
    with pytest.raises(RunError) as failure:
        train(recipe)
    message = str(failure.value)
    assert message.startswith(f"the loss became {word} in step 10, with the pairs ")
    assert message.endswith(f"; model.from={output / 'checkpoints/checkpoint-8'} begins with the last good weights")
    named = message.partition("pairs ")[2].partition(";")[0].split(", ")
    # The second forward pass of step 10 is the twentieth.
    assert len(batches) == 20
    assert len(named) == len(batches[-1]) == 4
    assert answers_of(dataset, named, recipe) == {tuple(row[row != -100].tolist()) for row in batches[-1]}
    assert [entry["step"] for entry in read_log(output)][-1] == 9
    # The optimizer has not taken it: what follows is as if nothing had happened.
    train(recipe, resume=True)
    whole = train(make_recipe(f"output={tmp_path / 'whole'}", *settings))
    assert_same_files(output, whole)


def answers_of(dataset: Path, ids: list[str], recipe: Recipe) -> set[tuple[int, ...]]:
    """Return the tokens of the answers of some consultations."""
    from wenzhen.tokenization import load_tokenizer

    tokenizer = load_tokenizer(Path(recipe.data.tokenizer))
    answers = {row["id"]: row["answer"] for row in load_split(dataset, "train")}
    tokens = [tokenizer(answers[name], add_special_tokens=False)["input_ids"] for name in ids]
    most = recipe.data.max_answer_length
    return {tuple([*row, tokenizer.eos_token_id][:most]) for row in tokens}


def test_a_gradient_that_is_no_number_stops_the_step_and_names_all_its_pairs(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(trainer: DurableTrainer) -> None:
        parameter = next(trainer.model.parameters())
        parameter.register_hook(lambda gradient: gradient * float("inf"))

    before_step(monkeypatch, 2, spoil)
    with pytest.raises(RunError, match=r"gradient's norm became (nan|inf) in step 2, with the pairs (\w+, ){7}\w+;"):
        train(make_recipe(f"output={tmp_path / 'model'}", *RUN))
    assert steps(tmp_path / "model") == []


def test_a_batch_that_does_not_fit_into_memory_brings_advice(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *RUN)

    def use_up(trainer: DurableTrainer) -> None:
        trainer.compute_loss = lambda *_, **__: torch.empty(2**60)

    before_step(monkeypatch, 6, use_up)
    with pytest.raises(RunError) as failure:
        train(recipe)
    message = str(failure.value)
    assert message.startswith("out of memory in step 6, with a batch of 8 pairs of ")
    assert "training.per_device_train_batch_size=4 with training.gradient_accumulation_steps=2 saves" in message

    def use_up_while_measuring(trainer: DurableTrainer) -> None:
        trainer.preprocess_logits_for_metrics = lambda *_: torch.empty(2**60)

    before_step(monkeypatch, 6, use_up_while_measuring)
    with pytest.raises(RunError, match=r"while measuring.*lower training.per_device_eval_batch_size, now"):
        train(recipe, resume=True)


def test_the_same_step_may_be_cut_otherwise_but_not_be_another(
    make_recipe: MakeRecipe,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "model"
    exact = (*RUN, "model.dropout=0.0", f"output={output}")
    before_step(monkeypatch, 10, send(signal.SIGTERM))
    with pytest.raises(Interrupted):
        train(make_recipe(*exact))
    with pytest.raises(UsageError, match=r"learns from 8 pairs a step, and these settings would give 16 pairs"):
        train(make_recipe(*exact, "training.gradient_accumulation_steps=2"), resume=True)
    cut = ("training.gradient_accumulation_steps=2", "training.per_device_train_batch_size=4")
    warnings = io.StringIO()
    transformers = logging.getLogger("transformers")
    transformers.addHandler(handler := logging.StreamHandler(warnings))
    train(make_recipe(*exact, *cut), resume=True)
    transformers.removeHandler(handler)
    assert warnings.getvalue() == ""
    assert "goes on     from step 10\n" in capsys.readouterr().out
    whole = train(make_recipe(*exact, f"output={tmp_path / 'whole'}"))
    for entry, expected in zip(read_log(output), read_log(whole), strict=True):
        assert entry == pytest.approx(expected, rel=1e-5)


def test_a_checkpoint_holds_no_path(run: Path) -> None:
    state = json.loads((run / "checkpoints" / "checkpoint-12" / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["best_model_checkpoint"] is None
    assert state["best_global_step"] in (4, 8, 12)
