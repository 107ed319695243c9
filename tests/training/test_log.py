"""The training log and its figure."""

import json
from pathlib import Path

from wenzhen.training.log import draw_losses, log_line, read_log


def test_lines_hold_losses_and_no_times() -> None:
    entry = {"loss": 1.5, "step": 3, "epoch": 0.1, "learning_rate": 0.01, "train_runtime": 9.0}
    assert json.loads(log_line(entry)) == {"loss": 1.5, "step": 3, "epoch": 0.1, "learning_rate": 0.01}
    assert log_line({"train_runtime": 9.0, "train_loss": 1.0, "step": 3}) == ""


def test_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = [{"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 1.0}]
    (tmp_path / "training_log.jsonl").write_text("".join(map(log_line, entries)), encoding="utf-8")
    assert read_log(tmp_path) == entries


def test_figure_is_a_picture(tmp_path: Path) -> None:
    draw_losses(
        [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5, "eval_loss": 1.8}], tmp_path / "figures" / "loss.png"
    )
    assert (tmp_path / "figures" / "loss.png").read_bytes().startswith(b"\x89PNG")
