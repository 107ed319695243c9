"""Files of questions, read as they are needed, a few in memory at a time."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wenzhen.errors import UsageError

# Longer lines, in bytes, are no question of anybody's.
LONGEST_LINE = 2**20
# Read at a time where lines do not matter.
BLOCK = 2**20
# Of what is quoted of a line that cannot be read.
QUOTED = 200


class Question(NamedTuple):
    """What a line asks, or why that cannot be told; `identity` holds the line's `id`, where it has one."""

    text: str
    error: str = ""
    identity: dict[str, str | int] = {}


class Place(NamedTuple):
    """How far a file has been read: the questions and bytes before the place, and a hash of these bytes."""

    questions: int = 0
    size: int = 0
    digest: str = hashlib.sha256().hexdigest()


class Chunk(NamedTuple):
    """Neighbouring questions: how many there are before them, and the place behind them."""

    first: int
    questions: list[Question]
    end: Place


@dataclass(frozen=True)
class QuestionFile:
    """A question a line, in UTF-8: in a `.jsonl` file an object with `question` and, if wanted, `id`.

    Attributes:
        path: of the file; None for standard input, which can be read once.
    """

    path: Path | None

    def __str__(self) -> str:
        return str(self.path or "standard input")

    def survey(self) -> Place | None:
        """Read through the file and return its end; None for standard input.

        Raises:
            UsageError: there is no such file, no question in it, or it is not UTF-8.
        """
        if self.path is None:
            return None
        if not self.path.is_file():
            raise UsageError(f"no file {self.path}")
        lines, last, digest = 0, b"", hashlib.sha256()
        with self.path.open("rb") as file:
            while block := file.read(BLOCK):
                if not last:
                    self.check_encoding(block)
                lines, last = lines + block.count(b"\n"), block
                digest.update(block)
            size = file.tell()
        if not size:
            raise UsageError(f"{self.path} holds no question")
        if not last.endswith(b"\n"):
            lines += 1
            digest.update(b"\n")
        return Place(lines, size, digest.hexdigest())

    def check_encoding(self, block: bytes) -> None:
        """Refuse a file of another encoding: a line that is not UTF-8 costs itself alone, half of them the file."""
        telling = [line for line in block.splitlines()[:100] if not line.isascii()]
        strange = [line for line in telling if "\N{REPLACEMENT CHARACTER}" in line.decode(errors="replace")]
        if strange and 2 * len(strange) >= len(telling):
            raise UsageError(f"{self.path} is not UTF-8; convert it, as with: iconv -f GB18030 -t UTF-8")

    def begins_with(self, place: Place) -> bool:
        """Tell whether what stands before a place is what stood there; of standard input only [`chunks`] tells."""
        if self.path is None:
            return True
        with self.path.open("rb") as file:
            lines = _Lines(file)
            lines.skip(place.size)
        return lines.digest.hexdigest() == place.digest

    def chunks(self, size: int, start: Place) -> Iterator[Chunk]:
        """Yield the questions behind a place, `size` at a time.

        Raises:
            UsageError: what stands before the place is not what stood there.
        """
        with self.opened() as file:
            lines = _Lines(file)
            lines.skip(start.size)
            if lines.digest.hexdigest() != start.digest:
                raise UsageError(
                    f"the first {start.questions:,} questions of {self} are not those that were answered; give the "
                    "same questions again, or name another output"
                )
            count = start.questions
            while questions := [self.question(line) for line in islice(lines, size)]:
                count += len(questions)
                place = Place(count, lines.size, lines.digest.hexdigest())
                yield Chunk(count - len(questions), questions, place)

    def opened(self) -> AbstractContextManager[BinaryIO]:
        """Open the file."""
        return nullcontext(sys.stdin.buffer) if self.path is None else self.path.open("rb")

    def question(self, line: bytes) -> Question:
        """Read a line."""
        if len(line) > LONGEST_LINE:
            beginning = line[:LONGEST_LINE].decode(errors="replace")[:QUOTED]
            return Question(beginning, f"the line has more than {LONGEST_LINE:,} bytes")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            beginning = line.decode(errors="replace")[:QUOTED]
            return Question(beginning, f"the line is not UTF-8: byte {error.start} cannot be decoded")
        return json_question(text) if self.path and self.path.suffix.lower() == ".jsonl" else Question(text)


class _Lines:
    """The lines of a file without their ends, hashed as they are read; of an endless one only its beginning.

    The hash counts an end that the last line lacks, so that the same bytes are another line where more follows.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.digest = file, 0, hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        while line := self.noted(self.file.readline(LONGEST_LINE + 1)):
            rest = line
            while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
                rest = self.noted(self.file.readline(LONGEST_LINE + 1))
            # A file may begin with a mark of its encoding.
            bare = line.removeprefix(b"\xef\xbb\xbf") if self.size == len(line) else line
            if rest.endswith(b"\n"):
                yield bare.removesuffix(b"\n").removesuffix(b"\r")
                continue
            self.digest.update(b"\n")
            yield bare
            return

    def noted(self, block: bytes) -> bytes:
        """Count and hash what was read."""
        self.size += len(block)
        self.digest.update(block)
        return block

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""
        last = b"\n"
        while self.size < size and (block := self.noted(self.file.read(min(BLOCK, size - self.size)))):
            last = block
        if not last.endswith(b"\n") and not self.file.read(1):
            self.digest.update(b"\n")


def json_question(line: str) -> Question:
    """Read a line of a `.jsonl` file."""
    try:
        content: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Question(line[:QUOTED], f"the line is not JSON: {error}")
    if not isinstance(content, dict) or not isinstance(content.get("question"), str):
        return Question(line[:QUOTED], "the line is no object with a question that is a text")
    if "id" not in content:
        return Question(content["question"])
    if type(content["id"]) not in (str, int):
        message = f"the id must be a text or a whole number, got {content['id']!r}"
        return Question(content["question"], message[:QUOTED])
    return Question(content["question"], identity={"id": content["id"]})
