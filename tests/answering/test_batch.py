"""Files of questions."""

import json
from pathlib import Path

import pytest

from wenzhen.answering import batch
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.batch import answer_file
from wenzhen.errors import UsageError


@pytest.fixture(scope="module")
def answerer(model_folder: Path) -> Answerer:
    return Answerer(model_folder)


def test_rows_come_in_order_and_bad_ones_cost_themselves_alone(
    answerer: Answerer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CHUNK", 2)
    questions = ["痔疮有什么症状？", "", "痛" * 500, "咳嗽怎么办？", "高血压平时要注意什么？请医生指点。"]
    (tmp_path / "questions.txt").write_text("\n".join(questions) + "\n", encoding="utf-8-sig")
    failed = answer_file(answerer, tmp_path / "questions.txt", tmp_path / "answers.jsonl", None)
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert failed == 2
    assert [row["question"] for row in rows] == questions
    assert ["error" in row for row in rows] == [False, True, True, False, False]
    assert rows[4]["text"] == answerer.answer(questions[4]).text


def test_an_output_is_never_overwritten(answerer: Answerer, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("咳嗽怎么办？\n", encoding="utf-8")
    (tmp_path / "answers.jsonl").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists"):
        answer_file(answerer, tmp_path / "questions.txt", tmp_path / "answers.jsonl", None)
    assert (tmp_path / "answers.jsonl").read_text(encoding="utf-8") == "mine"


def test_other_encodings_are_refused(answerer: Answerer, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_bytes("咳嗽怎么办？".encode("gb18030"))
    with pytest.raises(UsageError, match="not UTF-8"):
        answer_file(answerer, tmp_path / "questions.txt", None, None)
