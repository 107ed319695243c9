"""The training log."""

import json
from pathlib import Path

from transformers import TrainerControl, TrainerState, TrainingArguments

from wenzhen.training.log import TrainingLog, log_line, read_log

EXAMPLES = [{"question": "头痛怎么办？", "reference": "多休息。", "answer": "多喝水。"}]


def test_lines_hold_losses_and_no_times() -> None:
    entry = {"loss": 1.5, "step": 3, "epoch": 0.1, "learning_rate": 0.01, "train_runtime": 9.0}
    assert json.loads(log_line(entry)) == {"loss": 1.5, "step": 3, "epoch": 0.1, "learning_rate": 0.01}
    assert log_line({"train_runtime": 9.0, "train_loss": 1.0, "step": 3}) == ""


def test_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = [{"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 1.0}]
    (tmp_path / "training_log.jsonl").write_text("".join(map(log_line, entries)), encoding="utf-8")
    assert read_log(tmp_path) == entries


def test_examples_have_lines_of_their_own_which_the_losses_are_read_without(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    state = TrainerState(epoch=0.5, global_step=7, log_history=[{"eval_loss": 2.0, "epoch": 0.5, "step": 7}])
    arguments, control = TrainingArguments(output_dir=str(tmp_path)), TrainerControl()
    log.on_train_begin(arguments, state, control)
    log.add_examples(state, EXAMPLES)
    text = (tmp_path / "training_log.jsonl").read_text(encoding="utf-8")
    assert "头痛怎么办？" in text
    assert [json.loads(line) for line in text.splitlines()] == [
        {"step": 7, "epoch": 0.5, "eval_loss": 2.0},
        {"step": 7, "epoch": 0.5, "examples": EXAMPLES},
    ]
    assert read_log(tmp_path) == [{"step": 7, "epoch": 0.5, "eval_loss": 2.0}]
    # As a resumed run does with the state of a checkpoint.
    (tmp_path / "training_log.jsonl").unlink()
    log.on_train_begin(arguments, state, control)
    assert (tmp_path / "training_log.jsonl").read_text(encoding="utf-8") == text
