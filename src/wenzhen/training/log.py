"""What a run leaves to read of its course: losses and example answers as JSON lines."""

import json
import math
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wenzhen.errors import RunError
from wenzhen.models import LOG_FILE

# Of an entry with a loss. Times are left out, so that the same run twice gives the same log.
KEYS = (
    "step",
    "epoch",
    "loss",
    "grad_norm",
    "learning_rate",
    "eval_loss",
    "eval_perplexity",
    "eval_padded_loss",
    "eval_accuracy",
)
# The key of a list of questions with their answers; it stands in entries of its own.
EXAMPLES = "examples"
EXAMPLE_KEYS = ("question", "reference", "answer")


class TrainingLog(TrainerCallback):
    """Writes every logged value to `training_log.jsonl` as it comes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / LOG_FILE

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the file with what a resumed run has logged before."""
        if state.is_world_process_zero:
            self.file.write_text("".join(map(entry_line, state.log_history)), encoding="utf-8")

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
            self.write(entry)

    def add_examples(self, state: TrainerState, examples: list[dict[str, str]]) -> None:
        """Add questions and what the model answers to them now; the checkpoints keep them as they keep the losses."""
        state.log_history.append({"step": state.global_step, "epoch": state.epoch, EXAMPLES: examples})
        self.write(state.log_history[-1])

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry to the file."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(entry_line(entry))


def entry_line(entry: dict[str, Any]) -> str:
    """Return a log entry as a line."""
    if EXAMPLES not in entry:
        return log_line(entry)
    # A checkpoint gives the keys back in the order of the alphabet.
    examples = [{key: example[key] for key in EXAMPLE_KEYS} for example in entry[EXAMPLES]]
    line = {"step": entry["step"], "epoch": entry["epoch"], EXAMPLES: examples}
    return json.dumps(line, ensure_ascii=False) + "\n"


def log_line(entry: dict[str, Any]) -> str:
    """Return a log entry with a loss as a line; any other, as the run's summary, is none."""
    if "loss" not in entry and "eval_loss" not in entry:
        return ""
    return json.dumps({key: entry[key] for key in KEYS if key in entry}) + "\n"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read the losses of a model folder's log; the example answers between them are left out."""
    entries = map(json.loads, (folder / LOG_FILE).read_text(encoding="utf-8").splitlines())
    return [entry for entry in entries if not (isinstance(entry, dict) and EXAMPLES in entry)]
