"""The real command, killed (kill -9), told to stop, and started again: it comes to the same as one left in peace."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from helpers import tiny_run
from processes import Program, places, start
from wenzhen.training.output import is_unfinished

# KILLS=200 looks further.
KILLS = int(os.environ.get("KILLS", 5))
PAIRS = 8
SETTINGS = (
    "data.max_samples=80",
    "data.max_validation_samples=8",
    "data.max_answer_length=32",
    "training.use_cpu=true",
    "training.max_steps=30",
    "training.eval_steps=3",
    "training.logging_steps=5",
    "evaluation.examples=1",
    "evaluation.questions=0",
)
EXACT = ("model.safetensors", "training_log.jsonl", "figures/loss.png")


class Runs:
    """Starts runs of the same recipe."""

    def __init__(self, dataset: Path, tokenizer_folder: Path, folder: Path) -> None:
        self.folder = folder
        self.settings = [*tiny_run(dataset, tokenizer_folder), *SETTINGS]

    def start(self, output: Path, *words: str, processes: int = 1) -> list[Program]:
        """Start a run in one or several processes."""
        arguments = ["-m", "wenzhen", "train", "recipes/quickstart.yaml", *self.settings, f"output={output}"]
        arguments += [f"training.per_device_train_batch_size={PAIRS // processes}", *words]
        return [
            start(arguments, self.folder / f"{output.name}-{rank}", place)
            for rank, place in enumerate(places(processes) if processes > 1 else [{}])
        ]

    def train(self, output: Path, *words: str, processes: int = 1) -> None:
        """Run to the end."""
        for command in self.start(output, *words, processes=processes):
            assert command.wait() == 0, command.said()


@pytest.fixture(scope="module")
def runs(dataset: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(dataset, tokenizer_folder, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def whole(runs: Runs) -> Path:
    """Return the output of a run that nothing disturbed."""
    runs.train(runs.folder / "whole", "model.dropout=0.1")
    return runs.folder / "whole"


def assert_same(output: Path, whole: Path) -> None:
    for name in EXACT:
        assert (output / name).read_bytes() == (whole / name).read_bytes(), name


def wait_for_step(output: Path, step: int) -> None:
    """Wait until a run has logged a step."""
    log = output / "training_log.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        if any(json.loads(line)["step"] >= step for line in lines if line.endswith("}")):
            return
        time.sleep(0.005)
    raise TimeoutError("the run does not begin")


def test_a_run_that_is_killed_again_and_again_comes_to_the_same(runs: Runs, whole: Path, tmp_path: Path) -> None:
    chance = random.Random(0)
    output = tmp_path / "model"
    words: tuple[str, ...] = ()
    kills = 0
    while kills < KILLS:
        (command,) = runs.start(output, "model.dropout=0.1", *words)
        time.sleep(chance.uniform(0, 3))
        command.process.kill()
        assert command.wait() in (0, -signal.SIGKILL), command.said()
        kills += 1
        if (output / "recipe.yaml").exists() and not is_unfinished(output):
            assert_same(output, whole)
            output = tmp_path / str(kills)
        words = ("--overwrite",) if (output / "recipe.yaml").exists() else ()
        if any((output / "checkpoints").glob("checkpoint-*")):
            words = ("--resume",)
    runs.train(output, "model.dropout=0.1", *words)
    assert_same(output, whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_told_to_stop_says_how_to_go_on(
    runs: Runs, whole: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    output = tmp_path / number.name
    (command,) = runs.start(output, "model.dropout=0.1")
    wait_for_step(output, 5)
    os.kill(command.process.pid, number)
    assert command.wait() == code
    last = command.said().splitlines()[-1]
    newest = max(int(path.name.split("-")[1]) for path in (output / "checkpoints").iterdir())
    assert last.startswith(
        f"stopped by {number.name} after step {newest}, whose checkpoint is saved; the same command"
    )
    assert last.endswith("with --resume goes on from there")
    assert "Traceback" not in command.said()
    runs.train(output, "model.dropout=0.1", "--resume")
    assert_same(output, whole)


def test_several_processes_stop_at_the_same_step_and_one_goes_on(runs: Runs, tmp_path: Path) -> None:
    """Only one of them hears the signal."""
    exact = runs.folder / "exact"
    runs.train(exact, "model.dropout=0.0")
    output = tmp_path / "two"
    commands = runs.start(output, "model.dropout=0.0", processes=2)
    wait_for_step(output, 5)
    os.kill(commands[1].process.pid, signal.SIGTERM)
    assert [command.wait() for command in commands] == [143, 143]
    runs.train(output, "model.dropout=0.0", "--resume")
    logs = [(folder / "training_log.jsonl").read_text(encoding="utf-8").splitlines() for folder in (output, exact)]
    for line, expected in zip(*logs, strict=True):
        entry = json.loads(line)
        if "examples" not in entry:
            assert entry == pytest.approx(json.loads(expected), rel=1e-5)
