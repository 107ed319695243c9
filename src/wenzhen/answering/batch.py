"""Answering a file of questions."""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from wenzhen.answering.answerer import Answerer
from wenzhen.answering.decoding import Decoding
from wenzhen.errors import UsageError

# So many questions are answered before their answers are written: enough to sort by length, few enough to lose.
CHUNK = 1024


def answer_file(answerer: Answerer, file: Path, output: Path | None, decoding: Decoding | None) -> int:
    """Answer a text file's questions, one a line, as JSON lines in the same order.

    A question that cannot be answered gets a line with its `error`, and the others are answered all the same.

    Args:
        answerer: a loaded model.
        file: questions in UTF-8.
        output: where the lines go; None for standard output.
        decoding: None for the model's own way.

    Returns:
        How many questions could not be answered.

    Raises:
        UsageError: the file is not UTF-8, or the output exists.
    """
    try:
        # Not splitlines(), which breaks lines at other characters too.
        questions = file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: byte {error.start} cannot be decoded") from error
    if output and output.exists():
        raise UsageError(f"the output {output} exists; name a new file")
    failed = 0
    with (
        output.open("w", encoding="utf-8") if output else nullcontext(sys.stdout) as lines,
        tqdm(total=len(questions), unit=" questions", disable=None if output else True) as progress,
    ):
        for row in answer_rows(answerer, questions, decoding):
            failed += "error" in row
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            progress.update()
    if failed:
        tqdm.write(f"{failed:,} of {len(questions):,} questions could not be answered; see `error`", file=sys.stderr)
    return failed


def answer_rows(answerer: Answerer, questions: Iterable[str], decoding: Decoding | None) -> Iterator[dict[str, Any]]:
    """Yield one row per question, in order."""
    remaining = iter(questions)
    while chunk := list(itertools.islice(remaining, CHUNK)):
        rows: list[dict[str, Any]] = []
        for question in chunk:
            try:
                rows.append({"question": answerer.normalize(question)})
            except UsageError as error:
                rows.append({"question": question, "error": str(error)})
        sound = [row for row in rows if "error" not in row]
        for index, answer in answerer.answer_all([row["question"] for row in sound], decoding):
            sound[index] |= asdict(answer)
        yield from rows
