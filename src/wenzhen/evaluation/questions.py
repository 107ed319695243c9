"""The questions that a model is measured on, with the real answers to them: a split of a dataset, or a file."""

import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import FACTS_FILE, question_text
from wenzhen.errors import UsageError

# Of the draw that `limit` makes: every model gets the same questions.
SEED = 0


@dataclass(frozen=True)
class Consultations:
    """Questions and their real answers, in order.

    Attributes:
        ids: names of the consultations.
        departments: their departments, empty texts where that is unknown.
        questions: what is asked.
        references: the real answers; None where a file has questions alone.
    """

    ids: list[str]
    departments: list[str]
    questions: list[str]
    references: list[str] | None

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: list[int]) -> "Consultations":
        """Return some of them."""
        ids, departments, questions = (
            [values[row] for row in rows] for values in (self.ids, self.departments, self.questions)
        )
        references = None if self.references is None else [self.references[row] for row in rows]
        return Consultations(ids, departments, questions, references)

    @property
    def fingerprint(self) -> str:
        """A hash of everything in it."""
        values = (self.ids, self.departments, self.questions, self.references)
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@dataclass(frozen=True)
class Background:
    """What a dataset knows besides the questions that are asked.

    Attributes:
        training: the consultations that a model may have learned from; None where there is no dataset.
        facts: the phrases that count as facts.
    """

    training: Consultations | None = None
    facts: list[str] = field(default_factory=list)


def load_background(dataset: Path, with_title: bool = False, needed: bool = True) -> Background:
    """Load the training split and the facts of a dataset folder.

    Args:
        dataset: the folder.
        with_title: put the title before the question.
        needed: whether it is an error that there is no training split to read.

    Raises:
        UsageError: the folder is no dataset of ours or a damaged one.
    """
    facts = read_facts(dataset / FACTS_FILE)
    try:
        return Background(split_consultations(dataset, "train", with_title), facts)
    except UsageError:
        if needed:
            raise
        return Background(None, facts)


def read_facts(file: Path) -> list[str]:
    """Read the phrases that count as facts; none where there is no such file.

    Raises:
        UsageError: it holds something else than a list of texts.
    """
    if not file.is_file():
        return []
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is damaged: {error}; it must be a list of texts, or not be there") from error
    if not isinstance(facts, list) or not all(isinstance(fact, str) and fact for fact in facts):
        raise UsageError(f"{file} must be a JSON list of texts, or not be there")
    return facts


def select(asked: Consultations, department: str | None = None, limit: int | None = None) -> list[int]:
    """Choose questions, by their numbers.

    Args:
        asked: to choose from.
        department: take its questions alone.
        limit: of these take so many, drawn with a fixed seed; None for all.

    Raises:
        UsageError: no question is of the department.
    """
    rows = [row for row, name in enumerate(asked.departments) if department in (None, name)]
    if not rows:
        names = ", ".join(sorted(set(asked.departments) - {""})) or "none"
        raise UsageError(
            f"no question is of the department {department}; there are: {names} (a line of a .jsonl file may have a "
            "`department`)"
            if names == "none"
            else f"no question is of the department {department}; there are: {names}"
        )
    if limit is not None and limit < len(rows):
        rows = sorted(random.Random(SEED).sample(rows, limit))
    return rows


def split_consultations(dataset: Path, split: str, with_title: bool) -> Consultations:
    """Load a split of a dataset folder."""
    rows = load_split(dataset, split)
    names = rows.features["department"].names
    titles_and_questions = zip(rows["title"], rows["question"], strict=True)
    return Consultations(
        list(rows["id"]),
        [names[number] for number in rows["department"]],
        [question_text(title, question, with_title) for title, question in titles_and_questions],
        list(rows["answer"]),
    )


def read_file(file: Path) -> Consultations:
    """Read questions of one's own, in UTF-8.

    Args:
        file: `.jsonl`, an object a line with `question` and, in all lines or in none, `answer`; `department` and `id`
            where they are known. Any other file holds one question a line.

    Raises:
        UsageError: there is no such file, no question in it, or a line is none of these.
    """
    try:
        # Not splitlines(), which breaks lines at other characters too.
        lines = file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except FileNotFoundError as error:
        raise UsageError(f"no file {file}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: byte {error.start} cannot be decoded") from error
    is_json = file.suffix.lower() == ".jsonl"
    rows = [
        json_row(line, f"{file}, line {number}") if is_json else {"question": line}
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    for number, row in enumerate(rows, 1):
        if not row["question"].strip():
            raise UsageError(f"{file}: question {number} is empty; leave it out")
    if not rows:
        raise UsageError(f"{file} holds no question")
    answered = sum("answer" in row for row in rows)
    if answered not in (0, len(rows)):
        raise UsageError(f"{file} has answers to {answered:,} of its {len(rows):,} questions; give all or none")
    return Consultations(
        [row.get("id", str(number)) for number, row in enumerate(rows, 1)],
        [row.get("department", "") for row in rows],
        [row["question"].strip() for row in rows],
        [row["answer"] for row in rows] if answered else None,
    )


def json_row(line: str, place: str) -> dict[str, str]:
    """Read a line of a `.jsonl` file of questions; keys that mean nothing here are left out."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON: {error}") from error
    if not isinstance(content, dict) or "question" not in content:
        raise UsageError(f"{place} is no object with a question")
    row = {key: content[key] for key in ("id", "department", "question", "answer") if key in content}
    for key, value in row.items():
        if not is_text(value):
            raise UsageError(f"{place}: {key} must be a text, got {value!r}")
    return row


def is_text(value: Any) -> bool:
    """Tell whether a value is a text; half a character, as JSON can spell it, is none that a file could hold."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)
