"""From files to one table on disk: records read and cleaned, exact duplicates and what cannot be used put aside."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from tqdm import tqdm

from wenzhen.corpus.cleaning import Cleaner, normalized
from wenzhen.corpus.reading import ReadingOptions, Record, SourceReader
from wenzhen.corpus.schema import COLUMNS, Consultation
from wenzhen.corpus.sources import Source

DUPLICATE = "duplicate"
TOO_LONG = "too long"
EMPTY_ANSWER = "empty answer"
EMPTY_QUESTION = "empty question and title"

# The records' own columns, and what their questions and answers are compared by.
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in COLUMNS),
        ("too_long", pa.bool_()),
        ("question_key", pa.large_string()),
        ("answer_key", pa.large_string()),
    ]
)
_BATCH = 10_000


@dataclass(frozen=True)
class LengthBounds:
    """The most characters of a question and an answer, and whether a record beyond is dropped rather than marked."""

    question: int = 512
    answer: int = 1024
    drop: bool = False

    def exceeded_by(self, record: Consultation) -> bool:
        """Tell whether a record is longer."""
        return len(record.question_text) > self.question or len(record.answer) > self.answer


@dataclass(frozen=True)
class FileCount:
    """What one file held."""

    file: str
    encoding: str
    records: int
    kept: int


class Collection:
    """The records of some files, each different one once.

    Attributes:
        rows: for every record that can be kept, in reading order, its row in the table; exact duplicates share one.
        read: how many records were read, by department; "" where a record that cannot be read names none.
        rejected: how many were rejected, by department and reason.
        cleaners: what cleaning did, by department.
        files: what each file held.
    """

    def __init__(self, folder: Path, reading: ReadingOptions, bounds: LengthBounds, skip: frozenset[str]) -> None:
        """Prepare to collect into `folder`, for as long as which the table can be used.

        Args:
            folder: for the table.
            reading: how to read files.
            bounds: on lengths.
            skip: steps of cleaning that are not done; `duplicates` keeps exact duplicates.
        """
        self.rows: list[int] = []
        self.read = Counter[str]()
        self.rejected: dict[str, Counter[str]] = defaultdict(Counter)
        self.cleaners: dict[str, Cleaner] = {}
        self.files: list[FileCount] = []
        self._table_file = folder / "records.arrow"
        self._reading = reading
        self._bounds = bounds
        self._skip = skip
        self._row_of: dict[str, int] = {}

    def collect(self, sources: Sequence[Source], rejects_file: Path) -> None:
        """Read all files; write each record that is rejected to `rejects_file` as one JSON object a line.

        Raises:
            UsageError: a file cannot be read at all, or lacks a column.
        """
        with (
            rejects_file.open("w", encoding="utf-8") as rejects,
            pa.OSFile(str(self._table_file), "wb") as sink,
            pa.ipc.new_file(sink, SCHEMA) as writer,
            tqdm(unit=" records", disable=None) as progress,
        ):
            for source in sources:
                progress.set_description(source.department or source.name)
                before = self.read.total(), self.rejected_by_reason().total()
                reader = SourceReader(source, self._reading)
                records = self._new_records(reader, rejects, progress)
                while batch := list(islice(records, _BATCH)):
                    writer.write_table(self._as_table(batch))
                read, rejected = self.read.total() - before[0], self.rejected_by_reason().total() - before[1]
                self.files.append(FileCount(source.name, reader.encoding, read, read - rejected))

    def rejected_by_reason(self) -> Counter[str]:
        """Return how many records were rejected, over all departments."""
        return sum(self.rejected.values(), Counter[str]())

    def table(self) -> pa.Table:
        """Return the different records, by [`SCHEMA`], memory-mapped."""
        return pa.ipc.open_file(pa.memory_map(str(self._table_file))).read_all()

    def _new_records(
        self, reader: SourceReader, rejects: IO[str], progress: "tqdm[Any]"
    ) -> Iterator[tuple[str, Consultation]]:
        """Yield the records of a file that are kept and not in the table yet, with their ids."""
        for record in reader:
            progress.update()
            consultation, reason = record.consultation, record.reason
            department = consultation.department if consultation else reader.source.department or ""
            self.read[department] += 1
            if consultation:
                if department not in self.cleaners:
                    self.cleaners[department] = Cleaner(self._skip)
                consultation = self.cleaners[department].clean(consultation)
                reason = self._fault(consultation)
            if consultation and not reason:
                identity, new_row = consultation.id, len(self._row_of)
                row = self._row_of.setdefault(identity, new_row)
                self.rows.append(row)
                if row == new_row:
                    yield identity, consultation
                elif "duplicates" not in self._skip:
                    reason = DUPLICATE
            if reason:
                self.rejected[department][reason] += 1
                rejects.write(reject_line(reader, record, reason) + "\n")

    def _fault(self, consultation: Consultation) -> str | None:
        """Return why a cleaned record cannot be kept."""
        if not consultation.answer:
            return EMPTY_ANSWER
        if not consultation.question_text:
            return EMPTY_QUESTION
        if self._bounds.drop and self._bounds.exceeded_by(consultation):
            return TOO_LONG
        return None

    def _as_table(self, records: list[tuple[str, Consultation]]) -> pa.Table:
        """Put records with their ids into the table's columns."""
        rows = [
            (
                identity,
                record.department,
                record.sub_department,
                record.title,
                record.question,
                record.answer,
                self._bounds.exceeded_by(record),
                comparison_key(record.question_text),
                comparison_key(record.answer),
            )
            for identity, record in records
        ]
        columns = zip(zip(*rows, strict=True), SCHEMA, strict=True)
        return pa.table([pa.array(column, field.type) for column, field in columns], SCHEMA)


def comparison_key(text: str) -> str:
    """Return what a text is compared by: its letters and digits, or the text itself where it has none."""
    return normalized(text) or text


def reject_line(reader: SourceReader, record: Record, reason: str) -> str:
    """Return a rejected record as JSON; `raw` is its text in the file's `encoding`, or base64 of what is no text."""
    try:
        raw, encoding = record.raw.decode(reader.encoding), reader.encoding
        if raw.encode(encoding) != record.raw:
            raise UnicodeError
    except UnicodeError:
        raw, encoding = base64.b64encode(record.raw).decode(), "base64"
    entry = {"file": reader.source.name, "line": record.line, "reason": reason, "encoding": encoding, "raw": raw}
    return json.dumps(entry, ensure_ascii=False)
