"""Reading files of questions: every line gives one question or one error, and any place can be returned to."""

import io
import sys
from pathlib import Path

import pytest

from wenzhen.answering import question_files
from wenzhen.answering.question_files import Place, Question, QuestionFile
from wenzhen.errors import UsageError

START = Place()


def questions_of(file: Path, size: int = 3, start: Place = START) -> list[Question]:
    return [question for chunk in QuestionFile(file).chunks(size, start) for question in chunk.questions]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("咳嗽？\n头痛？\n", ["咳嗽？", "头痛？"]),
        ("咳嗽？\n头痛？", ["咳嗽？", "头痛？"]),
        ("\ufeff咳嗽？\r\n\r\n头痛？\r\n", ["咳嗽？", "", "头痛？"]),
        # Other characters at which Python would break lines.
        ("咳\x0b嗽\u2028？\n\n\n", ["咳\x0b嗽\u2028？", "", ""]),
        ("\n", [""]),
    ],
)
def test_a_line_is_a_question(tmp_path: Path, content: str, texts: list[str]) -> None:
    file = tmp_path / "questions.txt"
    file.write_bytes(content.encode())
    assert [question.text for question in questions_of(file)] == texts
    end = QuestionFile(file).survey()
    assert end.questions == len(texts)
    assert list(QuestionFile(file).chunks(2, Place()))[-1].end == end


def test_lines_of_json_keep_their_id(tmp_path: Path) -> None:
    file = tmp_path / "questions.JSONL"
    lines = [
        '{"id": "a", "question": "咳嗽？", "department": "内科"}',
        '{"question": "头痛？"}',
        '{"id": 0, "question": ""}',
        '{"id": 1.5, "question": "发烧？"}',
        '{"id": "b"}',
        '{"question": ["咳嗽？"]}',
        "咳嗽？",
        "",
        "[" * 100_000,
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    found = questions_of(file)
    assert [question.identity for question in found[:4]] == [{"id": "a"}, {}, {"id": 0}, {}]
    assert [question.text for question in found[:4]] == ["咳嗽？", "头痛？", "", "发烧？"]
    reasons = ["", "", "", "id must be", "no object", "no object", "not JSON", "not JSON", "not JSON"]
    assert all(reason in question.error for reason, question in zip(reasons, found, strict=True))
    assert not any(question.error for question in found[:3])


def test_a_damaged_or_endless_line_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_files, "LONGEST_LINE", 30)
    file = tmp_path / "questions.txt"
    lines = ["咳嗽？".encode(), "头痛".encode()[:-1], b"a" * 30, "痛".encode() * 100, "发烧？".encode()]
    file.write_bytes(b"\n".join(lines))
    found = questions_of(file)
    assert [bool(question.error) for question in found] == [False, True, False, True, False]
    assert "byte 3" in found[1].error
    assert "30 bytes" in found[3].error
    assert QuestionFile(file).survey() == list(QuestionFile(file).chunks(9, Place()))[-1].end


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16"])
def test_other_encodings_are_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "questions.txt").write_bytes("cough\n咳嗽怎么办？\n头痛\n".encode(encoding))
    with pytest.raises(UsageError, match="not UTF-8; convert it"):
        QuestionFile(tmp_path / "questions.txt").survey()


def test_what_holds_no_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        QuestionFile(tmp_path / "questions.txt").survey()
    (tmp_path / "questions.txt").touch()
    with pytest.raises(UsageError, match="holds no question"):
        QuestionFile(tmp_path / "questions.txt").survey()


def test_reading_goes_on_behind_any_place(tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("\ufeff" + "\n".join(f"第{number}个问题？" for number in range(20)), encoding="utf-8")
    whole = questions_of(file)
    for size in (1, 3, 20):
        for chunk in QuestionFile(file).chunks(size, Place()):
            assert questions_of(file, 4, chunk.end) == whole[chunk.end.questions :]
            assert chunk.questions == whole[chunk.first : chunk.end.questions]


@pytest.mark.parametrize("change", [lambda text: text.replace("0", "9"), lambda text: text[:20]])
def test_other_questions_before_the_place_are_refused(tmp_path: Path, change) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("".join(f"第{number}个问题？\n" for number in range(20)), encoding="utf-8")
    place = next(QuestionFile(file).chunks(10, Place())).end
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UsageError, match=r"first 10 questions of .* are not those"):
        questions_of(file, start=place)


def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            pytest.fail("more was read than is needed")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe := Pipe("咳嗽？\n头痛？\n发烧？\n".encode())))
    first = next(QuestionFile(None).chunks(2, Place()))
    assert [question.text for question in first.questions] == ["咳嗽？", "头痛？"]
    assert pipe.readline() == "发烧？\n".encode()
    assert QuestionFile(None).survey() is None
