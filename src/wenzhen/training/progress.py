"""How far a run is, how fast it learns, and how long it will take."""

import os
import sys
import time
from collections import deque
from datetime import timedelta
from typing import Any

from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

# The speed is the mean over so many steps.
WINDOW = 50
BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt}{postfix}"
# What the bar needs for all its numbers.
COLUMNS = 75


class Progress(TrainerCallback):
    """A bar on a wide terminal, and elsewhere a line for every logged loss: on standard error, by the first process.

    The speed counts the latest steps without the measurements between them; the time left follows from all that was
    done since the run was begun or resumed.

    Args:
        pairs: how many make an epoch.
    """

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs
        self.loss = ""
        # When each of the latest steps ended, and at which epoch.
        self.ends: deque[tuple[float, float]] = deque(maxlen=WINDOW + 1)
        self.measuring: tqdm[Any] | None = None
        # None until the run begins.
        self.training: tqdm[Any] = tqdm(disable=True)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar, at the step that a resumed run goes on from."""
        if state.is_world_process_zero:
            self.begin, self.first_step = time.monotonic(), state.global_step
            self.restart_clock(state)
            self.training = bar("training", total=state.max_steps, initial=state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move the bar."""
        if state.is_world_process_zero:
            self.ends.append((time.monotonic(), state.epoch or 0.0))
            self.training.set_postfix_str(self.status(state), refresh=False)
            self.training.update()

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move the bar of a measurement."""
        batches: DataLoader[Any] = kwargs["eval_dataloader"]
        if state.is_world_process_zero:
            self.measuring = self.measuring or bar("measuring", total=len(batches), leave=False)
            self.measuring.update()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leave the measurement behind."""
        if self.measuring is not None:
            self.measuring.close()
            self.measuring = None
        self.restart_clock(state)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Leave the time that a checkpoint took out of the speed."""
        self.restart_clock(state)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the newest loss, and add the speed to what trackers get; the log file is written without it."""
        if not state.is_world_process_zero:
            return
        logs: dict[str, float] = kwargs["logs"]
        if "loss" in logs:
            self.loss = f"loss {logs['loss']:.4f}"
            logs["pairs_per_second"] = self.speed()
            if self.training.disable:
                say(f"step {state.global_step:,} of {state.max_steps:,}, {self.status(state)}")
        if "eval_loss" in logs:
            say(f"step {state.global_step:,}: validation loss {logs['eval_loss']:.4f}, {quality(logs)}")

    def close(self) -> None:
        """Leave the bar where it came to, so that what is said next has a line of its own."""
        if self.measuring is not None:
            self.measuring.close()
        self.training.close()

    def restart_clock(self, state: TrainerState) -> None:
        """Measure the speed from here on."""
        self.ends.clear()
        self.ends.append((time.monotonic(), state.epoch or 0.0))

    def speed(self) -> float:
        """Return the pairs per second over the latest steps; 0 before the first of them has ended."""
        (begin, first), (end, last) = self.ends[0], self.ends[-1]
        return (last - first) * self.pairs / (end - begin) if end > begin else 0.0

    def status(self, state: TrainerState) -> str:
        """Return loss, speed and time left; the loss is missing until one was logged."""
        seconds = (time.monotonic() - self.begin) / (state.global_step - self.first_step)
        left = timedelta(seconds=round(seconds * (state.max_steps - state.global_step)))
        return ", ".join(filter(None, (self.loss, f"{self.speed():,.1f} pairs/s", f"{left} left")))


def quality(logs: dict[str, float]) -> str:
    """Say in the task's own measure what a validation loss means."""
    if "eval_accuracy" in logs:
        return f"accuracy {100 * logs['eval_accuracy']:.1f} %"
    perplexity = logs["eval_perplexity"]
    return f"perplexity {perplexity:.2f}" if perplexity < 1e6 else f"perplexity {perplexity:.3e}"


def bar(what: str, **options: Any) -> "tqdm[Any]":
    """Return a progress bar, which shows nothing where standard error is no terminal of [`COLUMNS`]."""
    return tqdm(desc=what, bar_format=BAR, dynamic_ncols=True, disable=columns() < COLUMNS, **options)


def columns() -> int:
    """Return the width of the terminal that standard error is; 0 where it is none, or nobody told it its size."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0


def say(line: str) -> None:
    """Write a line above the bars."""
    tqdm.write(line, file=sys.stderr)
