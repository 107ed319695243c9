"""Reading the six department CSVs with nothing lost: every record is either kept or named among the rejects."""

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wenzhen.corpus.cleaning import cleaned
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES, Consultation
from wenzhen.errors import UsageError

# Column of the file -> field of a consultation. The original calls the sub-department `department`.
COLUMNS = {
    "department": "sub_department",
    "title": "title",
    "ask": "question",
    "question": "question",
    "answer": "answer",
}
REQUIRED = ("question", "answer")
# Two encodings, tried in this order: GB18030 would decode UTF-8 into nonsense without an error.
ENCODINGS = ("utf-8-sig", "gb18030")

csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file as it stood there, with the consultation that it holds or the reason why it holds none."""

    file: str
    line: int
    raw: str
    consultation: Consultation | None = None
    reason: str | None = None


def find_files(folder: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Find each department's CSVs: below a folder that ends in its name, as `Andriatria_男科/`, anywhere in `folder`.

    Returns:
        The files of each department, and the names of the CSVs that belong to none.

    Raises:
        UsageError: the folder does not exist, or a department has no file.
    """
    if not folder.is_dir():
        raise UsageError(f"the input {folder} is not a folder")
    files: dict[str, list[Path]] = {department: [] for department in DEPARTMENTS}
    ignored = []
    for path in csv_files(folder):
        folders = (part.rpartition("_")[2] for part in reversed(path.relative_to(folder).parts[:-1]))
        department = next((name for name in folders if name in files), None)
        if department:
            files[department].append(path)
        else:
            ignored.append(str(path.relative_to(folder)))
    missing = [department for department, paths in files.items() if not paths]
    if missing:
        found = len(DEPARTMENTS) - len(missing)
        example = SOURCE_FILES[missing[0]]
        raise UsageError(
            f"{folder} holds CSVs of {found} of the {len(DEPARTMENTS)} departments; missing: {', '.join(missing)} "
            f"(as {example}: any .csv in a folder that ends in _{missing[0]})"
        )
    return files, ignored


def csv_files(folder: Path) -> list[Path]:
    """Return every CSV below a folder, links followed, none twice."""
    found: list[Path] = []
    visited = {folder.resolve()}
    for root, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to where it came from.
        folders[:] = [name for name in folders if Path(root, name).resolve() not in visited]
        visited |= {Path(root, name).resolve() for name in folders}
        found += [path for name in names if (path := Path(root, name)).suffix.lower() == ".csv" and path.is_file()]
    return sorted(found)


def decode(path: Path) -> str:
    """Return the file's text, strictly decoded as UTF-8 (with or without a byte-order mark) or else GB18030.

    Raises:
        UsageError: it is neither.
    """
    content = path.read_bytes()
    position = 0
    for encoding in ENCODINGS:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            # The encoding that was right for longer is the likelier one.
            position = max(position, error.start)
    line = content.count(b"\n", 0, position) + 1
    raise UsageError(f"{path} is neither UTF-8 nor GB18030: byte {position} (line {line}) cannot be decoded")


class RecordLines:
    """The lines of a text, remembering those that the CSV parser has taken for the current record."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline="")
        self._returned: list[str] = []
        self._taken: list[str] = []
        self.first_line = 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._returned.pop() if self._returned else next(self._lines)
        self._taken.append(line)
        return line

    def take(self, only_first: bool = False) -> tuple[int, str]:
        """Start the next record; `only_first` starts it at the current one's second line, which is then read again.

        Returns:
            The number of the current record's first line, and the raw text taken.
        """
        if only_first:
            self._returned += reversed(self._taken[1:])
            del self._taken[1:]
        line, raw = self.first_line, "".join(self._taken)
        self.first_line += len(self._taken)
        self._taken.clear()
        return line, raw


def read_csv(path: Path, department: str) -> Iterator[Record]:
    """Yield every record of a CSV with a header, in order; blank lines are no records.

    A field may hold commas, doubled quotes and line breaks inside quotes. Where quotes or the number of fields are
    wrong, the record's first line alone is given up and reading goes on behind it, so that a stray quote that makes a
    record malformed takes no other along.

    Raises:
        UsageError: the file cannot be decoded, is empty, or its header lacks a column.
    """
    lines = RecordLines(decode(path))
    records = csv.reader(lines, strict=True)
    fields = read_header(path, records)
    lines.take()
    while True:
        try:
            values = next(records, None)
            reason = None
        except csv.Error:
            values, reason = [], "malformed quotes"
        if values and len(values) != len(fields):
            reason = "wrong number of fields"
        line, raw = lines.take(only_first=reason is not None)
        if values is None:
            return
        if not values and not reason:
            continue
        consultation = None
        if not reason:
            named = {field: value for field, value in zip(fields, values, strict=True) if field}
            consultation = cleaned(
                Consultation(
                    department=department,
                    sub_department=named.get("sub_department", ""),
                    title=named.get("title", ""),
                    question=named["question"],
                    answer=named["answer"],
                )
            )
            reason = fault_of(consultation)
        yield Record(str(path), line, raw, None if reason else consultation, reason)


def read_header(path: Path, records: Iterator[list[str]]) -> list[str | None]:
    """Read the header and return the consultation's field in each column, None for a column of no use."""
    try:
        header = next((values for values in records if values), None)
    except csv.Error as error:
        raise UsageError(f"{path} has malformed quotes in its header") from error
    if header is None:
        raise UsageError(f"{path} is empty; expected a header with department, title, ask, answer")
    fields = [COLUMNS.get(name.strip().lower()) for name in header]
    for field in (*REQUIRED, *fields):
        if field and fields.count(field) != 1:
            names = "` or `".join(name for name, known in COLUMNS.items() if known == field)
            problem = "no column" if field not in fields else "more than one column"
            raise UsageError(f"{path} has {problem} `{names}`; its columns are: {', '.join(header)}")
    return fields


def fault_of(consultation: Consultation) -> str | None:
    """Return why a cleaned consultation cannot be kept, or None."""
    if not consultation.answer:
        return "empty answer"
    if not consultation.question_text:
        return "empty question and title"
    return None
