"""Predictions in their files, whole ones and drafts."""

from pathlib import Path

import pytest

from wenzhen.errors import UsageError
from wenzhen.evaluation.predictions import (
    Draft,
    Prediction,
    consultations_of,
    predictions_of,
    read_predictions,
    write_predictions,
)

ROWS = [
    Prediction("a", "内科", "头\n疼？", "休息。", "多喝水。", True, 3.5, 4, 3.0),
    Prediction("b", "", "咳嗽？", "", "“\u2028”", False, 0.0, 1, -1e-9),
]


def test_predictions_come_back_as_they_were(tmp_path: Path) -> None:
    write_predictions(ROWS, tmp_path / "p.jsonl")
    assert read_predictions(tmp_path / "p.jsonl") == ROWS
    asked = consultations_of(ROWS)
    assert predictions_of(asked, ["x", "y"]) == [
        Prediction("a", "内科", "头\n疼？", "休息。", "x"),
        Prediction("b", "", "咳嗽？", "", "y"),
    ]


def line(prediction: str = "p", **values: object) -> str:
    """A line of a file, its numbers as they stand there."""
    rest = "".join(f', "{key}": {value}' for key, value in values.items())
    return f'{{"id": "a", "department": "", "question": "q", "answer": "r", "prediction": "{prediction}"{rest}}}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no prediction"),
        ("torn", "is damaged"),
        ("{}\n", "line 1 is no prediction"),
        (line(ended=1), "line 1"),
        (line(prediction="\\ud800"), "line 1"),
        (line(nll=1, tokens=-1, padded_nll=1), "line 1"),
        (line(nll=1, tokens=0, padded_nll=1), "line 1"),
        (line(nll="NaN", tokens=2, padded_nll=1), "line 1"),
        (line(nll="Infinity", tokens=2, padded_nll=1), "line 1"),
        (line(nll=10**400, tokens=2, padded_nll=1), "line 1"),
        (line(nll=1), "line 1"),
        (line(nll=1, tokens=2, padded_nll=1) + line(), "has nll in some lines and not in others"),
        ("[" * 100_000, "is damaged"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_predictions(tmp_path / "p.jsonl")
    with pytest.raises(UsageError, match=r"no predictions .*missing"):
        read_predictions(tmp_path / "missing.jsonl")


def test_answers_beside_some_predictions_alone_are_refused() -> None:
    with pytest.raises(UsageError, match="all or none"):
        consultations_of([ROWS[0], Prediction("c", "", "q", None, "p")])


def test_a_draft_keeps_what_came_before_the_end(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "draft", {"weights": "1"})
    assert draft.read() == {}
    with draft.opened({}) as writer:
        writer.add(2, "二\n行", True)
        writer.add(0, "零", False)
    assert draft.read() == {2: ("二\n行", True), 0: ("零", False)}
    with draft.opened(draft.read()) as writer:
        writer.add(1, "一", True)
    whole = draft.file.read_bytes()
    assert draft.read() == {2: ("二\n行", True), 0: ("零", False), 1: ("一", True)}
    for end in range(len(whole)):
        draft.file.write_bytes(whole[:end])
        kept = draft.read()
        assert list(kept) == [2, 0, 1][: whole[:end].count(b"\n") - 1 if b"\n" in whole[:end] else 0]


@pytest.mark.parametrize(
    "torn",
    ["xx", "", "5", "[0]", '[0, "x"]', '[[0], "x", true]', "[0, 5, true]", '[0, "x", "no"]', '[0, "\\ud800", true]'],
)
def test_a_draft_is_read_up_to_what_nobody_wrote(tmp_path: Path, torn: str) -> None:
    draft = Draft(tmp_path / "draft", {"weights": "1"})
    with draft.opened({}) as writer:
        writer.add(1, "一", True)
    with draft.file.open("a", encoding="utf-8") as file:
        file.write(torn + "\n" + '[2, "二", true]\n')
    assert draft.read() == {1: ("一", True)}


def test_a_draft_of_another_model_is_forgotten(tmp_path: Path) -> None:
    with Draft(tmp_path / "draft", {"weights": "1"}).opened({}) as writer:
        writer.add(0, "零", True)
    other = Draft(tmp_path / "draft", {"weights": "2"})
    assert other.read() == {}
    with other.opened({}):
        pass
    assert Draft(tmp_path / "draft", {"weights": "1"}).read() == {}
