"""What a run leaves to read: its losses as JSON lines and as a figure."""

import json
import math
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wenzhen.errors import RunError
from wenzhen.models import LOG_FILE

# Times are left out, so that the same run twice gives the same log.
KEYS = (
    "step",
    "epoch",
    "loss",
    "grad_norm",
    "learning_rate",
    "eval_loss",
    "eval_perplexity",
    "eval_padded_loss",
)


class TrainingLog(TrainerCallback):
    """Writes every logged value to `training_log.jsonl` as it comes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / LOG_FILE

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the file with what a resumed run has logged before."""
        if state.is_world_process_zero:
            self.file.write_text("".join(map(log_line, state.log_history)), encoding="utf-8")

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Add the newest entry.

        Raises:
            RunError: the loss is no number any more; no later step can mend that.
        """
        entry = state.log_history[-1]
        if not all(math.isfinite(entry.get(key, 0)) for key in ("loss", "eval_loss")):
            raise RunError(
                f"the loss became {entry.get('loss', entry.get('eval_loss'))} by step {entry['step']}; lower "
                "training.learning_rate or raise training.warmup_steps (earlier checkpoints are kept)"
            )
        if state.is_world_process_zero:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(log_line(entry))


def log_line(entry: dict[str, Any]) -> str:
    """Return a log entry as a line; entries without a loss, as the run's summary, are none."""
    if "loss" not in entry and "eval_loss" not in entry:
        return ""
    return json.dumps({key: entry[key] for key in KEYS if key in entry}) + "\n"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read a model folder's log."""
    return [json.loads(line) for line in (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()]


def draw_losses(entries: list[dict[str, Any]], file: Path) -> None:
    """Draw training and validation loss against steps (the thesis' figure 4.1)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for key, label, style in (("loss", "training", "-"), ("eval_loss", "validation", "o-")):
        points = [(entry["step"], entry[key]) for entry in entries if key in entry]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, markersize=4)
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel("loss (nats per real token)")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, dpi=150)
