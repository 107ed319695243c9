"""What a model answered, as JSON lines: metrics are counted on them again without asking the model once more."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from wenzhen.errors import UsageError
from wenzhen.evaluation.questions import Consultations, is_text
from wenzhen.folders import replace_file


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer beside the real one.

    Attributes:
        id, department, question: of the consultation.
        answer: the real one, if there is one.
        prediction: the model's.
        ended: whether it ended by itself rather than at the length limit; None where nobody generated it.
        nll: negative log-likelihood of the real answer, in nats; None where it was not measured.
        tokens: of the real answer, its end included.
        padded_nll: the same of as many of its first tokens as the thesis' loss counts.
    """

    id: str
    department: str
    question: str
    answer: str | None
    prediction: str
    ended: bool | None = None
    nll: float | None = None
    tokens: int | None = None
    padded_nll: float | None = None


# No answer has as many tokens, or nats.
LARGEST = 1e12
KINDS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "department": (str,),
    "question": (str,),
    "answer": (str, type(None)),
    "prediction": (str,),
    "ended": (bool, type(None)),
    "nll": (float, int, type(None)),
    "tokens": (int, type(None)),
    "padded_nll": (float, int, type(None)),
}


def write_predictions(predictions: list[Prediction], file: Path) -> None:
    """Write predictions, a line each; the file appears whole or not at all."""
    with replace_file(file) as draft:
        draft.write_text("".join(json_line(asdict(row)) for row in predictions), encoding="utf-8")


def read_predictions(file: Path) -> list[Prediction]:
    """Read predictions.

    Raises:
        UsageError: there is no such file, or it holds something else.
    """
    predictions = []
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                row = json.loads(line)
                if not isinstance(row, dict) or not is_sound(row):
                    raise ValueError(f"line {number} is no prediction with {', '.join(KINDS)}")
                predictions.append(Prediction(**{key: row[key] for key in KINDS if key in row}))
    except FileNotFoundError as error:
        raise UsageError(f"no predictions {file}; make them with wenzhen evaluate MODEL") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is damaged: {error}; make it again with wenzhen evaluate MODEL") from error
    if not predictions:
        raise UsageError(f"{file} holds no prediction")
    for key in ("ended", "nll"):
        if len({getattr(row, key) is None for row in predictions}) > 1:
            raise UsageError(f"{file} has {key} in some lines and not in others; make it again with wenzhen evaluate")
    return predictions


def is_sound(row: dict[str, Any]) -> bool:
    """Tell whether what stands in a line can be a prediction."""
    if any(type(row.get(key)) not in kinds for key, kinds in KINDS.items()):
        return False
    if not all(is_text(value) for value in row.values() if isinstance(value, str)):
        return False
    nll, tokens, padded = (row.get(key) for key in ("nll", "tokens", "padded_nll"))
    if nll is None:
        return tokens is None and padded is None
    if tokens is None or padded is None:
        return False
    # A sum of rounded numbers may be just below zero.
    return bool(nll < LARGEST and -1e-3 <= padded <= nll + 1e-3 and 1 <= tokens < LARGEST)


def predictions_of(asked: Consultations, answers: list[str]) -> list[Prediction]:
    """Put answers beside what was asked."""
    references: list[str | None] = [None] * len(asked) if asked.references is None else list(asked.references)
    rows = zip(asked.ids, asked.departments, asked.questions, references, answers, strict=True)
    return [Prediction(*row) for row in rows]


def consultations_of(predictions: list[Prediction]) -> Consultations:
    """Return what was asked."""
    references = [row.answer for row in predictions if row.answer is not None]
    if len(references) not in (0, len(predictions)):
        raise UsageError("some of the predictions have a real answer beside them and others none; give all or none")
    return Consultations(
        [row.id for row in predictions],
        [row.department for row in predictions],
        [row.question for row in predictions],
        references or None,
    )


class Draft:
    """The answers of a run that has not finished: it goes on where it was stopped or killed.

    Args:
        file: where the answers go as they come.
        key: what determines them; answers to something else are forgotten.
    """

    def __init__(self, file: Path, key: dict[str, Any]) -> None:
        self.file = file
        self.header = json_line(key)

    def read(self) -> dict[int, tuple[str, bool]]:
        """Return the answers so far by the numbers of their questions, and whether they ended by themselves."""
        answers: dict[int, tuple[str, bool]] = {}
        if not self.file.is_file():
            return answers
        with self.file.open(encoding="utf-8", errors="replace") as lines:
            if next(lines, None) != self.header:
                return answers
            for line in lines:
                # The last line of a killed run may be torn; what follows such a line comes from nobody.
                try:
                    index, text, ended = json.loads(line if line.endswith("\n") else "")
                except (TypeError, ValueError, RecursionError):
                    break
                if type(index) is not int or not is_text(text) or type(ended) is not bool:
                    break
                answers[index] = (text, ended)
        return answers

    @contextmanager
    def opened(self, answers: dict[int, tuple[str, bool]]) -> Iterator["DraftWriter"]:
        """Begin the file with the answers so far, and yield what adds others."""
        lines = (json_line([index, text, ended]) for index, (text, ended) in answers.items())
        with replace_file(self.file) as begun:
            begun.write_text(self.header + "".join(lines), encoding="utf-8")
        with self.file.open("a", encoding="utf-8") as file:
            yield DraftWriter(file)


class DraftWriter:
    """Adds answers to a draft."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def add(self, index: int, text: str, ended: bool) -> None:
        """Add the answer to a question, by its number."""
        self.file.write(json_line([index, text, ended]))
        self.file.flush()


def json_line(content: Any) -> str:
    """Write JSON on a line."""
    return json.dumps(content, ensure_ascii=False) + "\n"
