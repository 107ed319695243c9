"""`wenzhen evaluate` from the command line."""

import json
import shutil
from pathlib import Path

import pytest

from wenzhen.cli import main
from wenzhen.errors import UsageError
from wenzhen.folders import alone


@pytest.fixture(scope="module")
def measured(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(model_folder, tmp_path_factory.mktemp("command") / "model"))
    assert main(["evaluate", str(folder), "--limit", "4", "--decoding", "greedy:no_repeat_ngram_size=2"]) == 0
    return folder


def test_metrics_answers_and_card_lie_in_the_model_folder(measured: Path) -> None:
    metrics = json.loads((measured / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["questions"], metrics["limit"], metrics["repetitive"]) == (4, 4, 0)
    assert f"| rougeL_char | {metrics['rougeL_char']:.4f}" in (measured / "README.md").read_text(encoding="utf-8")
    assert len((measured / "predictions.jsonl").read_text(encoding="utf-8").splitlines()) == 4


def test_predictions_are_counted_again(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (measured / "metrics.json").read_bytes()
    assert main(["evaluate", str(measured / "predictions.jsonl"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    # The recipe beside the file names the dataset, so the floors are there too.
    assert again == json.loads(before)
    assert (measured / "metrics.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--file", "questions.txt", "--split", "test"], "both a --file and a --split"),
        (["--limit", "0"], "--limit must be at least 1, got 0"),
        (["--batch-size", "-1"], "--batch-size must be at least 1, got -1"),
        (["--file", "nowhere.txt"], r"no file nowhere\.txt"),
        (["--department", "牙科"], "no question is of the department 牙科"),
        (["--dataset", "nowhere"], "nowhere holds no dataset with a test split"),
    ],
)
def test_what_cannot_be_measured(measured: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        main(["evaluate", str(measured), *words])


def test_answers_that_are_there_take_no_decoding(measured: Path) -> None:
    with pytest.raises(UsageError, match="--decoding goes with a model folder"):
        main(["evaluate", str(measured / "predictions.jsonl"), "--decoding", "beam"])
    with pytest.raises(UsageError, match="no model folder"):
        main(["evaluate", str(measured / "missing.jsonl")])


@pytest.mark.parametrize("content", ["{", "[]", '"x"', "null", "{}"])
def test_damaged_circumstances_are_named(measured: Path, tmp_path: Path, content: str) -> None:
    shutil.copy(measured / "predictions.jsonl", tmp_path)
    (tmp_path / "metrics.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"metrics\.json is damaged"):
        main(["evaluate", str(tmp_path / "predictions.jsonl")])


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"leakage": 5}', '{"leakage": {"q": 5}}'])
def test_a_damaged_report_of_the_dataset_is_named(measured: Path, dataset: Path, tmp_path: Path, content: str) -> None:
    folder = Path(shutil.copytree(dataset, tmp_path / "dataset"))
    (folder / "report.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"report\.json is damaged"):
        main(["evaluate", str(measured), "--dataset", str(folder), "--limit", "2", "--output", str(tmp_path / "out")])


def test_questions_of_ones_own_leave_the_model_folder_alone(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (measured / "metrics.json").read_bytes()
    (tmp_path / "own.txt").write_text("头疼怎么办？\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(measured), "--file", "own.txt"]) == 0
    assert "metrics: outputs/model-own/metrics.json" in capsys.readouterr().out
    assert (tmp_path / "outputs/model-own/predictions.jsonl").is_file()
    assert (measured / "metrics.json").read_bytes() == before


def test_two_evaluations_do_not_write_over_each_other(measured: Path, tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(UsageError, match="another process is at work in"):
        main(["evaluate", str(measured), "--limit", "2", "--output", str(tmp_path)])


def test_an_unknown_decoding_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (("best", "no decoding best"), ("beam:num_beams=0", "num_beams must be a whole number")):
        with pytest.raises(SystemExit) as stopped:
            main(["evaluate", "model", "--decoding", name])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
