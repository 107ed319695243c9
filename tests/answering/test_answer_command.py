"""`wenzhen answer`: what it refuses, what it prints, and a file from end to end."""

import io
import json
import sys
from pathlib import Path

import pytest

from wenzhen.answering.answer import NOTICE, Answer
from wenzhen.answering.departments import DepartmentGuess
from wenzhen.answering.evidence import Evidence
from wenzhen.answering.safety import SafetyNotice
from wenzhen.cli import main
from wenzhen.cli.answer import in_words
from wenzhen.errors import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["咳嗽", "--processes", "2"], "--processes goes with --file"),
        (["咳嗽", "--output", "answers.jsonl"], "--output goes with --file"),
        (["--file", "questions.txt", "--overwrite"], "--overwrite goes with --output"),
        (["--file", "questions.txt", "--processes", "0"], "--processes must be at least 1, got 0"),
        (["--file", "-", "--ray", "local"], "standard input can be read once"),
        (["--file", "questions.txt", "--output", "answers.jsonl"], "no file questions.txt"),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(main, ["answer", "nowhere", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_where_ray_is_missing_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "questions.txt").write_text("咳嗽？\n", encoding="utf-8")
    for name in [name for name in sys.modules if name.startswith("wenzhen.answering.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(main, ["answer", "nowhere", "--file", str(tmp_path / "questions.txt"), "--ray", "local"]) == 2
    assert capsys.readouterr().err == 'error: Ray is not installed; install it with: pip install "wenzhen[ray]"\n'


def test_a_file_is_answered(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("痔疮有什么症状？\n\n咳嗽怎么办？\n", encoding="utf-8")
    command = ["answer", str(model_folder), "--file", str(questions), "--output", str(tmp_path / "answers.jsonl")]
    assert run(main, command) == 1
    told = capsys.readouterr()
    assert told.out == f"answers: {tmp_path / 'answers.jsonl'}\n"
    assert "questions that could not be answered: 1; see `error`" in told.err
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ["error" in row for row in rows] == [False, True, False]
    assert main(["answer", str(model_folder), "痔疮有什么症状？", "--json"]) == 0
    single = json.loads(capsys.readouterr().out)
    assert single.keys() == rows[0].keys()
    assert single["text"] == rows[0]["text"]
    assert run(main, command) == 2
    assert "exists" in capsys.readouterr().err


def test_standard_input_is_answered_line_by_line(
    model_folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("痔疮有什么症状？\n咳嗽怎么办？".encode())))
    assert run(main, ["answer", str(model_folder), "--file", "-"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["question"] for row in rows] == ["痔疮有什么症状？", "咳嗽怎么办？"]


def test_a_reader_sees_all_that_belongs_to_an_answer() -> None:
    answer = Answer(
        "血压高龘",
        text="少吃盐。",
        unknown="龘",
        caveat="模型没有把握。",
        department=DepartmentGuess("内科", 0.876, (("内科", 0.876),)),
        evidence=(Evidence("1", "内科", "血压有点高\n怎么办？", "量" * 500, 0.625),),
    )
    text = in_words(answer)
    parts = ("少吃盐。", "龘", "模型没有把握。", "科室：内科（88%）", "相似度 0.62", "问：血压有点高 怎么办？", NOTICE)
    for part in parts:
        assert part in text
    assert "量" * 120 + "…" in text
    assert "量" * 121 not in text


def test_in_an_emergency_a_reader_sees_the_advice_alone() -> None:
    notice = SafetyNotice("chest", "heart", "紧急", "请立即拨打120。", "Call 120 now.", ("胸痛",), "1")
    lines = in_words(Answer("胸痛", safety=notice)).split("\n\n")
    assert lines == ["紧急", "请立即拨打120。", "Call 120 now.", f"({NOTICE})"]
