"""What a run shows of its progress."""

import gc
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from wenzhen.errors import RunError
from wenzhen.recipe import Recipe
from wenzhen.training import progress
from wenzhen.training.durable import DurableTrainer
from wenzhen.training.progress import Progress
from wenzhen.training.run import train


@pytest.fixture
def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], io.StringIO]:
    """Return what makes standard error a terminal of so many columns."""

    def make(columns: int) -> io.StringIO:
        terminal = io.StringIO()
        terminal.fileno = lambda: 2
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(progress.os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))
        return terminal

    return make


class Run:
    """A run in which time passes as it is told to; an epoch has 100 steps of 10 pairs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, first_step: int = 0) -> None:
        self.now = 1000.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        self.arguments, self.control = TrainingArguments(output_dir=str(folder)), TrainerControl()
        self.state = TrainerState(global_step=first_step, epoch=first_step / 100, max_steps=200)
        self.callback = Progress(pairs=1000)
        self.tell("train_begin")

    def tell(self, event: str, **values: Any) -> None:
        getattr(self.callback, f"on_{event}")(self.arguments, self.state, self.control, **values)

    def step(self, seconds: float) -> None:
        self.now += seconds
        self.state.global_step += 1
        self.state.epoch = self.state.global_step / 100
        self.tell("step_end")

    def log(self, **values: float) -> dict[str, float]:
        self.tell("log", logs=values)
        return values


def test_a_line_for_each_logged_loss(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, tmp_path)
    for _ in range(10):
        run.step(2.0)
    # 10 pairs in 2 seconds; 190 steps of 2 seconds to go.
    assert run.log(loss=3.25)["pairs_per_second"] == pytest.approx(5.0)
    assert capsys.readouterr().err == "step 10 of 200, loss 3.2500, 5.0 pairs/s, 0:06:20 left\n"


def test_measuring_slows_the_run_but_not_its_speed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, tmp_path)
    for _ in range(10):
        run.step(2.0)
    run.now += 15
    assert run.log(eval_loss=3.0, eval_perplexity=20.0855) == {"eval_loss": 3.0, "eval_perplexity": 20.0855}
    run.tell("evaluate")
    run.now += 5
    run.tell("save")
    for _ in range(10):
        run.step(1.0)
    assert run.log(loss=2.5)["pairs_per_second"] == pytest.approx(10.0)
    # 20 steps took 50 seconds, so 180 more take 450.
    assert capsys.readouterr().err.splitlines() == [
        "step 10: validation loss 3.0000, perplexity 20.09",
        "step 20 of 200, loss 2.5000, 10.0 pairs/s, 0:07:30 left",
    ]


def test_the_speed_is_that_of_the_latest_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, tmp_path)
    # As where the first step compiles the network.
    run.step(100.0)
    for _ in range(progress.WINDOW):
        run.step(0.5)
    assert run.log(loss=2.5)["pairs_per_second"] == pytest.approx(20.0)


def test_a_resumed_run_counts_from_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, tmp_path, first_step=150)
    for _ in range(10):
        run.step(2.0)
    assert run.log(loss=1.0)["pairs_per_second"] == pytest.approx(5.0)
    assert capsys.readouterr().err == "step 160 of 200, loss 1.0000, 5.0 pairs/s, 0:01:20 left\n"


def test_bars_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_terminal: Callable[[int], io.StringIO]
) -> None:
    terminal = make_terminal(80)
    run = Run(monkeypatch, tmp_path, first_step=100)
    run.callback.training.mininterval = 0
    run.log(loss=3.25)
    run.step(2.0)
    for _ in range(3):
        run.tell("prediction_step", eval_dataloader=range(3))
    run.tell("evaluate")
    assert run.callback.measuring is None
    run.callback.close()
    shown = terminal.getvalue()
    assert re.search(r"training  50%\|.*100 of 200\b", shown)
    assert re.search(r"training  50%\|.*101 of 200, loss 3\.2500, 5\.0 pairs/s, 0:03:18 left", shown)
    assert re.search(r"measuring   0%\|.*0 of 3\b", shown)
    assert "step 10" not in shown


# As `docker exec -t` begins with, and where the bar would leave the time out.
@pytest.mark.parametrize("columns", [0, 60])
def test_lines_on_a_terminal_that_is_too_narrow_for_the_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_terminal: Callable[[int], io.StringIO], columns: int
) -> None:
    terminal = make_terminal(columns)
    run = Run(monkeypatch, tmp_path)
    for _ in range(10):
        run.step(2.0)
    run.log(loss=3.25)
    run.tell("prediction_step", eval_dataloader=range(3))
    run.tell("evaluate")
    run.callback.close()
    assert terminal.getvalue() == "step 10 of 200, loss 3.2500, 5.0 pairs/s, 0:06:20 left\n"


def test_what_is_said_after_a_run_that_failed_has_a_line_of_its_own(
    make_recipe: Callable[..., Recipe],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_terminal: Callable[[int], io.StringIO],
) -> None:
    terminal = make_terminal(80)

    def fail(self: Any, *_: Any, **__: Any) -> None:
        raise RunError("no more")

    monkeypatch.setattr(DurableTrainer, "_get_grad_norm", fail)
    with pytest.raises(RunError, match="no more"):
        train(make_recipe(f"output={tmp_path / 'model'}", "evaluation.examples=0"))
    shown = terminal.getvalue()
    assert re.search(r"training   0%\|[^\r\n]*\n$", shown)
    gc.collect()
    assert terminal.getvalue() == shown


@pytest.mark.parametrize(
    ("perplexity", "shown"), [(20.0855, "20.09"), (999_999.0, "999999.00"), (2043038742678686050287616.0, "2.043e+24")]
)
def test_perplexities_of_all_sizes(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    perplexity: float,
    shown: str,
) -> None:
    run = Run(monkeypatch, tmp_path)
    run.log(eval_loss=3.0, eval_perplexity=perplexity)
    assert capsys.readouterr().err == f"step 0: validation loss 3.0000, perplexity {shown}\n"


def test_only_the_first_process_shows_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, tmp_path)
    run.state.is_world_process_zero = False
    run.tell("train_begin")
    run.step(1.0)
    run.tell("prediction_step", eval_dataloader=range(3))
    assert run.log(loss=3.0, eval_loss=3.0, eval_perplexity=20.0) == {
        "loss": 3.0,
        "eval_loss": 3.0,
        "eval_perplexity": 20.0,
    }
    run.tell("evaluate")
    run.tell("save")
    run.callback.close()
    assert capsys.readouterr().err == ""


def test_a_run_tells_its_speed_in_lines_and_not_in_its_log(
    make_recipe: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("training.max_steps=4", "training.eval_steps=2", "training.logging_steps=2", "evaluation.examples=0")
    output = train(make_recipe(f"output={tmp_path / 'model'}", *settings))
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("step ")]
    starts = [re.match(r"step \d( of 4, loss|: validation loss) \d\.\d{4}, ", line) for line in lines]
    assert len(lines) == 5 and all(starts)
    assert [line.split()[1] for line in lines] == ["1", "2", "2:", "4", "4:"]
    assert "loss" not in captured.out
    assert "pairs_per_second" not in (output / "training_log.jsonl").read_text(encoding="utf-8")
