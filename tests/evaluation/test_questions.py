"""What is asked: a split's questions, some of them, or those of a file."""

from pathlib import Path

import pytest

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.evaluation.questions import (
    Consultations,
    load_background,
    read_facts,
    read_file,
    select,
    split_consultations,
)


def consultations(*departments: str) -> Consultations:
    numbers = [str(number) for number in range(len(departments))]
    return Consultations(numbers, list(departments), numbers, numbers)


def test_a_split_is_asked_in_its_order(dataset: Path) -> None:
    rows = load_split(dataset, "test")
    asked = split_consultations(dataset, "test", with_title=False)
    assert (asked.ids, asked.references) == (list(rows["id"]), list(rows["answer"]))
    assert asked.departments == [rows.features["department"].int2str(number) for number in rows["department"]]
    titled = split_consultations(dataset, "test", with_title=True)
    assert titled.questions == [
        f"{row['title']}\n{question}" for row, question in zip(rows, asked.questions, strict=True)
    ]


def test_background_is_the_training_split_and_the_facts(dataset: Path) -> None:
    background = load_background(dataset)
    assert background.training is not None
    assert background.training.references == list(load_split(dataset, "train")["answer"])
    assert len(background.facts) > 100


def test_a_department_and_a_number_of_questions_are_chosen() -> None:
    asked = consultations("内科", "外科", "内科", "内科", "外科")
    assert select(asked) == [0, 1, 2, 3, 4]
    assert select(asked, department="内科") == [0, 2, 3]
    drawn = select(asked, limit=2)
    assert drawn == select(asked, limit=2) == sorted(set(drawn))
    assert len(drawn) == 2
    assert set(select(asked, department="内科", limit=2)) < {0, 2, 3}
    assert select(asked, limit=9) == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match="department 儿科; there are: 内科, 外科"):
        select(asked, department="儿科")


def test_taking_some_keeps_them_together() -> None:
    taken = consultations("内科", "外科", "儿科").take([2, 0])
    assert taken == Consultations(["2", "0"], ["儿科", "内科"], ["2", "0"], ["2", "0"])


def test_the_fingerprint_tells_what_is_asked() -> None:
    one, same, other = consultations("内科"), consultations("内科"), consultations("外科")
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_a_file_of_lines_has_questions_alone(tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("\ufeff头疼怎么办？\n\n 咳嗽\u2028三天 \n\n", encoding="utf-8")
    asked = read_file(file)
    assert asked == Consultations(["1", "2"], ["", ""], ["头疼怎么办？", "咳嗽\u2028三天"], None)


def test_a_file_of_json_lines_may_have_answers_and_departments(tmp_path: Path) -> None:
    file = tmp_path / "questions.JSONL"
    file.write_text(
        '{"question": "头疼？", "answer": "休息。", "more": 1}\n\n'
        '{"id": "b", "department": "内科", "question": "咳嗽？", "answer": ""}\n',
        encoding="utf-8",
    )
    asked = read_file(file)
    assert asked == Consultations(["1", "b"], ["", "内科"], ["头疼？", "咳嗽？"], ["休息。", ""])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\n \n", "holds no question"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("a.txt", "头疼".encode("gb18030"), "is not UTF-8: byte 2"),
        ("a.jsonl", b"", "holds no question"),
        ("a.jsonl", b"{", "line 1 is not JSON"),
        ("a.jsonl", b'{"question": "a"}\n[]', "line 2 is no object with a question"),
        ("a.jsonl", b'{"answer": "a"}', "line 1 is no object with a question"),
        ("a.jsonl", b'{"question": 3}', "line 1: question must be a text, got 3"),
        ("a.jsonl", b'{"question": "\\ud800"}', "line 1: question must be a text"),
        ("a.jsonl", b'{"question": " "}', "question 1 is empty"),
        ("a.jsonl", b'{"question": "a", "answer": "b"}\n{"question": "c"}', "answers to 1 of its 2 questions"),
    ],
)
def test_a_file_that_cannot_be_asked_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_file(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file .*questions\.jsonl"):
        read_file(tmp_path / "questions.jsonl")


@pytest.mark.parametrize("content", ["{", "[1]", "5", "null", '{"a": 1}', '"abc"', '[""]', "[" * 100_000])
def test_facts_of_another_form_are_refused(dataset: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "facts.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"facts\.json"):
        read_facts(tmp_path / "facts.json")
    assert read_facts(tmp_path / "none.json") == []


def test_without_a_training_split_there_is_no_background_where_none_is_needed(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no dataset"):
        load_background(tmp_path)
    assert load_background(tmp_path, needed=False).training is None
