"""Reading records from CSV, JSON lines and Parquet with nothing lost: each is either read or has a reason why not."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wenzhen.corpus.csv_records import CsvRecords
from wenzhen.corpus.schema import Consultation
from wenzhen.corpus.sources import UTF8, Source, detect_encoding, printable
from wenzhen.errors import UsageError

# The names, in lower case, that the column of a field may have where the user names no other.
COLUMN_NAMES = {
    "department": ("department", "科室"),
    "sub_department": ("sub_department",),
    "title": ("title", "标题"),
    "question": ("ask", "question", "问题"),
    "answer": ("answer", "回答"),
}
REQUIRED = ("question", "answer")

UNDECODABLE = "undecodable bytes"
NUL = "NUL character"
MALFORMED_JSON = "malformed JSON"
NO_OBJECT = "no JSON object"
NOT_TEXT = "field is not text"
NO_DEPARTMENT = "no department"
AMBIGUOUS = "a field in more than one column"

# So many objects may lack a field before a file is refused that has no other.
_FIRST_OBJECTS = 1_000
# Of a header that is no header, a message shows this much.
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 20, 40
_PARQUET_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What a user says of the files: their encoding, names of columns by field, the department where there is none."""

    encoding: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    department: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stood in its file, with the consultation that it holds or the reason why it holds none.

    `line` counts from 1; in a Parquet file it counts rows, and `raw` is the row's columns as JSON.
    """

    line: int
    raw: bytes
    consultation: Consultation | None = None
    reason: str | None = None


class SourceReader:
    """Reads the records of one file; the suffix says its format."""

    def __init__(self, source: Source, options: ReadingOptions) -> None:
        """Look at the file's encoding.

        Raises:
            UsageError: the file is UTF-16.
        """
        self.source = source
        self.options = options
        self._path = printable(str(source.path))
        self._candidates = self._column_names()
        self.format = source.path.suffix.lower()
        self.encoding = UTF8
        if self.format != ".parquet":
            self.encoding = options.encoding or detect_encoding(source.path)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in order.

        Raises:
            UsageError: the file as a whole cannot be read, or lacks a column.
        """
        return {".csv": self._csv, ".jsonl": self._json_lines, ".parquet": self._parquet}[self.format]()

    def _csv(self) -> Iterator[Record]:
        """Read a CSV with a header."""
        path = self.source.path
        with path.open(encoding="latin-1", newline="") as file:
            try:
                records = CsvRecords(path, file)
                header = [name.encode("latin-1").decode(self.encoding) for name in records.header]
            except csv.Error as error:
                fault = "a column name over 1 MiB" if "field limit" in str(error) else "malformed quotes"
                raise UsageError(f"{self._path} has {fault} in its header") from error
            except UnicodeDecodeError as error:
                raise UsageError(f"the header of {self._path} is not {self.encoding}; name its --encoding") from error
            if not header:
                raise UsageError(f"{self._path} is empty; expected a header with department, title, ask, answer")
            places = {name: header.index(column) for name, column in self._columns(header).items()}
            records.category_first = 0 in (places.get("department"), places.get("sub_department"))
            for record in records:
                raw = record.raw.encode("latin-1")
                if record.reason:
                    yield Record(record.line, raw, None, record.reason)
                else:
                    fields = {name: record.values[place].encode("latin-1") for name, place in places.items()}
                    yield self._record(record.line, raw, fields)

    def _json_lines(self) -> Iterator[Record]:
        """Read one JSON object a line; its keys are the columns, of which any may be left out.

        Of a key that an object has twice the last value counts. Some object near the file's beginning must have all
        the columns that other formats need.
        """
        matching = lru_cache(self._matching)
        first: tuple[str, ...] = ()
        objects, is_fit = 0, False
        with self.source.path.open("rb") as file:
            for line, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                try:
                    row = json.loads(raw.decode(self.encoding).removeprefix("\ufeff"))
                except (ValueError, RecursionError) as error:
                    reason = UNDECODABLE if isinstance(error, UnicodeDecodeError) else MALFORMED_JSON
                    yield Record(line, raw, None, reason)
                    continue
                if isinstance(row, list) and not objects:
                    raise UsageError(
                        f"{self._path} begins with a JSON array; give one object a line (jq -c '.[]' FILE)"
                    )
                if not isinstance(row, dict):
                    yield Record(line, raw, None, NO_OBJECT)
                    continue
                found = tuple(row)
                first = first or found
                objects += 1
                is_fit = is_fit or self._is_fit(found)
                if not is_fit and objects == _FIRST_OBJECTS:
                    break
                columns = matching(found)
                if any(len(keys) > 1 for keys in columns.values()):
                    yield Record(line, raw, None, AMBIGUOUS)
                else:
                    fields = {name: row[keys[0]] if keys else None for name, keys in columns.items()}
                    yield self._record(line, raw, fields)
        if objects and not is_fit:
            self._columns(first)

    def _is_fit(self, found: Sequence[str]) -> bool:
        """Tell whether a file with these columns can be read."""
        try:
            return bool(self._columns(found))
        except UsageError:
            return False

    def _parquet(self) -> Iterator[Record]:
        """Read a Parquet file."""
        line = 0
        try:
            with pq.ParquetFile(self.source.path) as file:
                columns = self._columns(file.schema_arrow.names)
                for column in columns.values():
                    self._check_text(column, file.schema_arrow.field(column).type)
                for batch in file.iter_batches(_PARQUET_ROWS, columns=list(columns.values())):
                    # As bytes: a text that is no valid UTF-8 must cost its own row only.
                    texts = [batch.column(name).cast(pa.string()).cast(pa.binary()) for name in columns.values()]
                    for values in zip(*(column.to_pylist() for column in texts), strict=True):
                        line += 1
                        row = dict(zip(columns.values(), values, strict=True))
                        raw = json.dumps(
                            row, ensure_ascii=False, default=lambda value: value.decode(UTF8, "backslashreplace")
                        )
                        yield self._record(line, raw.encode(), dict(zip(columns, values, strict=True)))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._path} cannot be read as Parquet: {printable(str(error))}") from error

    def _check_text(self, column: str, kind: pa.DataType) -> None:
        """Refuse a Parquet column that holds no text."""
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        # A column without any value is of the type null.
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
        if not any(is_kind(kind) for is_kind in kinds):
            raise UsageError(f"{self._path}: the column `{shown([column])}` holds {kind}, not text")

    def _column_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names, in lower case, that the column of each field may have.

        A column that the user chose for one field serves no other by its name. In a department's folder a column
        `department` holds the sub-department, as in the original corpus.
        """
        chosen = {name: column.lower() for name, column in self.options.columns.items()}
        names = {
            name: tuple(column for column in known if column not in chosen.values())
            for name, known in COLUMN_NAMES.items()
        } | {name: (column,) for name, column in chosen.items()}
        if self.source.department and not {"department", "sub_department"} & chosen.keys():
            names["sub_department"] += names.pop("department")
        return names

    def _matching(self, found: Sequence[str]) -> dict[str, list[str]]:
        """Return, of the columns found, those that each field may be in."""
        lower = [(column, column.strip().lower()) for column in found]
        return {name: [column for column, key in lower if key in known] for name, known in self._candidates.items()}

    def _columns(self, found: Sequence[str]) -> dict[str, str]:
        """Return the column of each field that the file has one for.

        Raises:
            UsageError: a field that is needed has no column, or one has several.
        """
        columns: dict[str, str] = {}
        for name, matching in self._matching(found).items():
            known = f"column `{'` or `'.join(self._candidates[name])}`"
            if len(matching) > 1:
                raise UsageError(f"{self._path} has more than one {known}: {shown(found)}")
            if matching:
                columns[name] = matching[0]
            elif name in (*REQUIRED, *self.options.columns):
                hint = f"--columns {name}=COLUMN takes another"
                if len(found) == 1 and any(separator in found[0] for separator in ";\t|"):
                    hint = "what separates the fields must be a comma"
                raise UsageError(f"{self._path} has no {known}; its columns are: {shown(found)} ({hint})")
        if "department" not in columns and not self.source.department and not self.options.department:
            raise UsageError(
                f"{self._path} does not say which department its records belong to; give --department NAME, or name "
                f"the column (--columns department=COLUMN); its columns are: {shown(found)}"
            )
        return columns

    def _record(self, line: int, raw: bytes, fields: dict[str, Any]) -> Record:
        """Make a record of its fields: bytes in the file's encoding, texts, or None for an empty one."""
        texts = {}
        for name, value in fields.items():
            try:
                if isinstance(value, bytes):
                    text = value.decode(self.encoding)
                elif value is None or isinstance(value, str):
                    text = value or ""
                    text.encode()  # JSON can hold halves of characters.
                else:
                    return Record(line, raw, None, NOT_TEXT)
            except UnicodeError:
                return Record(line, raw, None, UNDECODABLE)
            if "\0" in text:
                return Record(line, raw, None, NUL)
            texts[name] = text
        department = texts.get("department", "").strip() or self.source.department or self.options.department
        if not department:
            return Record(line, raw, None, NO_DEPARTMENT)
        consultation = Consultation(
            department=department,
            sub_department=texts.get("sub_department", ""),
            title=texts.get("title", ""),
            question=texts["question"],
            answer=texts["answer"],
        )
        return Record(line, raw, consultation)


def shown(columns: Sequence[str]) -> str:
    """Return the names of columns for a message of one line; where there are many, the first."""
    names = [
        printable(name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "…")
        for name in columns[:_SHOWN_COLUMNS]
    ]
    more = [f"… ({len(columns)} in all)"] if len(columns) > _SHOWN_COLUMNS else []
    return ", ".join(names + more)
