"""Laying the losses of runs over each other from the command line."""

import json
from pathlib import Path

import pytest

from wenzhen.cli import main
from wenzhen.errors import UsageError
from wenzhen.training.log import log_line


def run_folder(folder: Path, *losses: float) -> Path:
    """Write the log of a run with a validation loss after each half epoch."""
    folder.mkdir(parents=True)
    entries = [{"step": 1, "epoch": 0.25, "loss": 6.0}]
    for number, loss in enumerate(losses, 1):
        measured = {"eval_loss": loss, "eval_perplexity": 2 * loss, "eval_padded_loss": loss / 2}
        entries.append({"step": 1000 * number, "epoch": number / 2, **measured})
    (folder / "training_log.jsonl").write_text("".join(map(log_line, entries)), encoding="utf-8")
    return folder


def test_best_measurements_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_folder(tmp_path / "small", 4.0, 3.0, 3.5), run_folder(tmp_path / "large batch", 5.0)]
    words = ["compare", "--losses", *map(str, runs), "--output", str(tmp_path / "out")]
    assert main(words) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["step", "epoch", "loss", "perplexity", "padded_loss"],
        ["small", "2,000", "1.00", "3.0000", "6.00", "1.5000"],
        ["large", "batch", "1,000", "0.50", "5.0000", "10.00", "2.5000"],
        ["figure:", str(tmp_path / "out" / "losses.png")],
    ]
    assert (tmp_path / "out" / "losses.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="--overwrite"):
        main(words)
    assert main([*words, "--overwrite", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["figure"] == str(tmp_path / "out" / "losses.png")
    assert result["best"]["small"] == {
        "step": 2000,
        "epoch": 1.0,
        "eval_loss": 3.0,
        "eval_perplexity": 6.0,
        "eval_padded_loss": 1.5,
    }


def test_runs_of_the_same_name_are_told_apart_by_their_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_folder(tmp_path / place / "model", 4.0) for place in ("a", "b")]
    assert main(["compare", "--losses", *map(str, runs), "--output", str(tmp_path / "out"), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["best"]) == list(map(str, runs))


def test_a_run_that_has_measured_nothing_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--losses", str(run_folder(tmp_path / "new")), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["new", "-", "-", "-", "-", "-"]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", 4.0)
    with pytest.raises(UsageError, match=r"nowhere holds no training_log\.jsonl"):
        main(["compare", "--losses", str(run), str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="named twice"):
        main(["compare", "--losses", str(run), f"{run}/."])
    (run / "training_log.jsonl").write_text("torn", encoding="utf-8")
    with pytest.raises(UsageError, match=r"training_log\.jsonl is damaged"):
        main(["compare", "--losses", str(run)])
