"""Splitting a CSV into records so that a damaged one takes no other along.

A file is split as bytes (each one a character of Latin-1), before any decoding: in UTF-8 and in the GB encodings a
comma, a quote or a line end is never part of another character. Python's `csv` does the splitting, strictly.
"""

import csv
import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from wenzhen.corpus.sources import GB18030, UTF8

UNCLOSED_QUOTE = "unclosed quote"
MALFORMED_QUOTES = "malformed quotes"
WRONG_FIELDS = "wrong number of fields"
FIELD_TOO_LONG = "field over 1 MiB"

# Bounds the memory that a quote costs which is never closed.
csv.field_size_limit(2**20)
# Bounds the time that quotes cost which each swallow what follows.
_MOST_LINES = 256
# So many commas, all where records would have them, are no list in an answer.
_TELLING_COMMAS = 9
_BYTE_ORDER_MARKS = tuple("\ufeff".encode(encoding).decode("latin-1") for encoding in (UTF8, GB18030))


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """A record's first line number, its bytes as Latin-1, and its fields or the reason why it has none."""

    line: int
    raw: str
    values: list[str]
    reason: str | None = None


class RecordLines:
    """The lines of a file behind its byte order mark, remembering those that are taken for the current record."""

    def __init__(self, file: TextIO) -> None:
        first = file.readline()
        for mark in _BYTE_ORDER_MARKS:
            # Before the parser sees it: a quote behind it opens a field.
            first = first.removeprefix(mark)
        self._lines = iter(file)
        self._returned = [first]
        self.taken: list[str] = []
        self.first_line = 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if len(self.taken) == _MOST_LINES:
            raise csv.Error(f"more than {_MOST_LINES} lines")
        line = self._returned.pop() if self._returned else next(self._lines)
        self.taken.append(line)
        return line

    def take(self, only_first: bool = False) -> tuple[int, str]:
        """Start the next record; `only_first` starts it at the current one's second line, which is then read again.

        Returns:
            The number of the current record's first line, and the text taken.
        """
        if only_first:
            self._returned += reversed(self.taken[1:])
            del self.taken[1:]
        line, raw = self.first_line, "".join(self.taken)
        self.first_line += len(self.taken)
        self.taken.clear()
        return line, raw


class CsvRecords:
    """The records of an open CSV with a header.

    A field may hold commas, doubled quotes and line breaks inside quotes; blank lines are no records. Where quotes or
    the number of fields are wrong, the record's first line alone is given up and reading goes on behind it.

    A quote that was left open may be closed by one in a later record. It shows where every later line taken is a
    record by itself: one will do that begins with a category, otherwise there must be several. The first line is given
    up, and so is the closing one, for it may after all be the end of a field; those between are read as records.

    Attributes:
        header: the first record; empty where the file holds none.
        category_first: whether the first column repeats a few values, the categories.
    """

    def __init__(self, path: Path, file: TextIO) -> None:
        """Read the header of `file`, which was opened from `path` as Latin-1 with `newline=""`.

        Raises:
            csv.Error: its quotes are malformed.
        """
        self._path = path
        self._lines = RecordLines(file)
        self._rows = csv.reader(self._lines, strict=True)
        self.header: list[str] = []
        for values in self._rows:
            self._lines.take()
            if any(value.strip() for value in values):
                self.header = values
                break
        self.category_first = False
        self._closing_line = 0
        self._categories: set[str] | None = None

    def __iter__(self) -> Iterator[CsvRecord]:
        """Yield the records behind the header, in order."""
        while True:
            reason = None
            try:
                values = next(self._rows, None)
            except csv.Error as error:
                values, reason = [], self._explain(error)
            if values is None:
                return
            is_blank = not reason and len(values) <= 1 and not "".join(self._lines.taken).strip(string.whitespace)
            if not reason and not is_blank and len(values) != len(self.header):
                reason = WRONG_FIELDS
            elif not reason and self._lines.first_line == self._closing_line:
                reason = UNCLOSED_QUOTE
            elif not reason and len(self._lines.taken) > 1 and self._swallows_records():
                reason = UNCLOSED_QUOTE
                self._closing_line = self._lines.first_line + len(self._lines.taken) - 1
            line, raw = self._lines.take(only_first=reason is not None)
            if not is_blank:
                yield CsvRecord(line, raw, [] if reason else values, reason)

    def _explain(self, error: csv.Error) -> str:
        """Put the parser's error into one of our reasons."""
        several_lines = len(self._lines.taken) > 1
        if "expected after" in str(error):
            # What comes behind a closing quote on a later line was, most likely, an opening one.
            return UNCLOSED_QUOTE if several_lines else MALFORMED_QUOTES
        if "field limit" in str(error) and not several_lines:
            return FIELD_TOO_LONG
        return UNCLOSED_QUOTE

    def _swallows_records(self) -> bool:
        """Tell whether the later lines of the current record are all records by themselves."""
        later = [line for line in self._lines.taken[1:] if line.strip(string.whitespace)]
        commas = len(self.header) - 1
        # In a single column every line would be a record.
        if not commas or not later or any(line.count(",") < commas for line in later):
            return False
        if not self.category_first and (len(later) - 1) * commas < _TELLING_COMMAS:
            return False
        try:
            # Leniently: the closing line may have one quote only.
            alone = list(csv.reader(later))
        except csv.Error:
            return False
        return len(alone) == len(later) and all(
            len(values) == len(self.header) and (not self.category_first or values[0] in self._first_values())
            for values in alone
        )

    def _first_values(self) -> set[str]:
        """Return what at least two records begin with; lines inside a field do not count."""
        if self._categories is None:
            with self._path.open(encoding="latin-1", newline="") as file:
                counts = Counter(record.values[0] for record in CsvRecords(self._path, file) if record.values)
            self._categories = {value for value, count in counts.items() if count > 1}
        return self._categories
