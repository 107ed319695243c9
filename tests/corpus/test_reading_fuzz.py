"""Damage done at random to sound files: nothing may be lost or invented, and sound records stay as they are."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_collecting import raw_bytes

from wenzhen.corpus.collecting import Collection, LengthBounds
from wenzhen.corpus.reading import ReadingOptions, Record, SourceReader
from wenzhen.corpus.schema import Consultation
from wenzhen.corpus.sources import Source
from wenzhen.errors import UsageError

# FUZZ_EXAMPLES=20000 looks further, each time elsewhere.
EXAMPLES = os.environ.get("FUZZ_EXAMPLES")
fuzz = settings(derandomize=not EXAMPLES, max_examples=int(EXAMPLES or 200), deadline=None, database=None)

CATEGORIES = ("骨科", "眼科")
CODECS = st.sampled_from(["utf-8", "gb18030"])
NEWLINES = st.sampled_from(["\n", "\r\n", "\r"])
# One to four bytes each, in some of them ASCII letters and digits; and what other readers take for line ends.
CHARACTERS = ["a", "1", " ", "疼", "丂", "亅", "㐂", "😀", "无", "\x85", "\u2028", "\x0b", "\xa0"]
TEXTS = st.text(st.sampled_from([*CHARACTERS, ",", '"', "\n", "\r"]), max_size=5)
# In these no line begins with a value and three commas, as a record does whose first column is a category.
PLAIN_TEXTS = st.one_of(
    st.text(st.sampled_from([*CHARACTERS, ",", '"']), max_size=5),
    st.text(st.sampled_from([*CHARACTERS, '"', "\n", "\r"]), max_size=5),
)
# Some of these close a quote that damage opens in another record.
CLOSING_TEXTS = st.sampled_from(["疼", "肿", "红", '热"'])
JUNK = st.one_of(
    st.binary(max_size=6),
    st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"\x81", b"\xe4\xb8", b"a"]), max_size=6).map(
        b"".join
    ),
)


@dataclass(frozen=True)
class Row:
    """A record as it stands in a sound file, and what it holds."""

    raw: bytes
    consultation: Consultation


@dataclass(frozen=True)
class Table:
    """A sound CSV: its header, its records, their encoding, whether the first column is a category."""

    header: bytes
    rows: list[Row]
    codec: str
    category_first: bool

    @property
    def content(self) -> bytes:
        return self.header + b"".join(row.raw for row in self.rows)


@dataclass(frozen=True)
class Edit:
    """Bytes from `start` to `end` of a file that others take the place of."""

    start: int
    end: int
    junk: bytes


@dataclass(frozen=True)
class Place:
    """Where a record stands in a damaged file, and whether before all damage."""

    row: Row
    line: int
    is_before: bool


def written(field: str, quoted: bool) -> str:
    """Write a field in quotes, if it must be or if it shall; it need not for the sake of a quote inside it."""
    if quoted or field.startswith('"') or set(field) & set(",\n\r"):
        return '"' + field.replace('"', '""') + '"'
    return field


@st.composite
def tables(draw, category_texts=PLAIN_TEXTS, category_first=None):
    category_first = draw(st.booleans()) if category_first is None else category_first
    codec, newline = draw(CODECS), draw(NEWLINES)
    texts, category = (category_texts, st.sampled_from(CATEGORIES)) if category_first else (TEXTS, TEXTS)
    columns = ("department", "title", "ask", "answer") if category_first else ("ask", "title", "answer", "department")
    quoting = draw(st.sampled_from([st.just(False), st.booleans(), st.just(True)]))
    # What makes the categories known.
    rows = [[name, "题", "问", "答"] for name in CATEGORIES * 2] if category_first else []
    quoted = [[False] * 4 for _ in rows]
    for _ in range(draw(st.integers(0, 6))):
        rows.append([draw(category), draw(texts), draw(texts), draw(texts)])
        quoted.append([draw(quoting) for _ in range(4)])
    made = []
    for number, (fields, quotes) in enumerate(zip(rows, quoted, strict=True)):
        line = ",".join(map(written, fields, quotes))
        end = "" if number == len(rows) - 1 and draw(st.booleans()) else newline
        named = dict(zip(columns, fields, strict=True))
        consultation = Consultation("内科", named["department"], named["title"], named["ask"], named["answer"])
        made.append(Row((line + end).encode(codec), consultation))
    return Table((",".join(columns) + newline).encode(), made, codec, category_first)


@st.composite
def edits(draw, table, start):
    """Draw one change from `start` on: other bytes, fewer, none, a quote more or less, another line end."""
    content = table.content
    size = len(content)
    begin = draw(st.integers(start, size))
    quotes = [match.start() for match in re.finditer(b'"', content) if match.start() >= start]
    fields = [match.end() for match in re.finditer(b",", content) if match.end() >= start]
    ends = [match.span() for match in re.finditer(rb"\r\n?|\n", content) if match.start() >= start]
    choices = [
        st.builds(Edit, st.just(begin), st.integers(begin, min(begin + 4, size)), JUNK),
        st.builds(Edit, st.just(begin), st.integers(begin, size), st.just(b"")),
        st.just(Edit(begin, size, b"")),
        st.just(Edit(begin, begin, b'"')),
    ]
    if quotes:
        choices.append(st.sampled_from(quotes).map(lambda place: Edit(place, place + 1, b"")))
    if fields:
        choices.append(st.sampled_from(fields).map(lambda place: Edit(place, place, b'"')))
    if ends:
        junk = st.sampled_from([b"", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r"])
        choices.append(st.builds(lambda end, other: Edit(*end, other), st.sampled_from(ends), junk))
    return draw(st.one_of(choices))


def guard(table):
    """Return where damage may begin: behind the header and what makes the categories known."""
    return len(table.header) + sum(len(row.raw) for row in table.rows[: 2 * len(CATEGORIES) * table.category_first])


@st.composite
def damaged_tables(draw, most_edits=1):
    table = draw(tables())
    changes: list[Edit] = []
    start = guard(table)
    for _ in range(draw(st.integers(1, most_edits))):
        changes.append(draw(edits(table, start)))
        start = changes[-1].end
    return table, changes


def changed(content: bytes, changes: Sequence[Edit]) -> bytes:
    """Apply edits, which follow each other."""
    for edit in reversed(changes):
        content = content[: edit.start] + edit.junk + content[edit.end :]
    return content


def untouched(table: Table, changes: Sequence[Edit], damaged: bytes) -> Iterator[Place]:
    """Yield the records that stand as they were, on lines of their own."""
    start = len(table.header)
    for row in table.rows:
        end = start + len(row.raw)
        moved = start + sum(len(edit.junk) - (edit.end - edit.start) for edit in changes if edit.end <= start)
        is_hit = any(edit.start < end and edit.end > start for edit in changes)
        ends_line = row.raw[-1:] in b"\r\n" or moved + len(row.raw) == len(damaged)
        if not is_hit and ends_line and damaged[moved - 1 : moved] in (b"\r", b"\n"):
            yield Place(row, len(lines_of(damaged[:moved])) + 1, end <= changes[0].start)
        start = end


def lines_of(content: bytes) -> list[bytes]:
    return re.findall(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def read(folder: Path, content: bytes, encoding: str | None = None, suffix: str = ".csv") -> list[Record]:
    path = folder / f"x{suffix}"
    path.write_bytes(content)
    return list(SourceReader(Source(path, path.name, "内科"), ReadingOptions(encoding)))


def assert_nothing_is_lost_or_invented(lines: Sequence[bytes], records: Sequence[Record], first: int) -> None:
    """Compare the records, each at its line, with the lines that are neither blank nor before line `first`."""
    line = first
    for record in records:
        assert not b"".join(lines[line - 1 : record.line - 1]).strip()
        line = record.line
        taken = b""
        while len(taken) < len(record.raw):
            taken += lines[line - 1]
            line += 1
        assert record.raw == taken
        assert (record.consultation is None) == (record.reason is not None)
    assert not b"".join(lines[line - 1 :]).strip()


def found(records: Sequence[Record]) -> list[tuple[int, Consultation]]:
    return [(record.line, record.consultation) for record in records if record.consultation]


@fuzz
@given(table=tables())
def test_a_sound_file_is_read_as_it_was_written(folder, table):
    records = read(folder, table.content, table.codec)
    assert [record.consultation for record in records] == [row.consultation for row in table.rows]
    assert [record.raw for record in records] == [row.raw for row in table.rows]


@fuzz
@given(case=damaged_tables(most_edits=4))
def test_damage_loses_and_invents_nothing(folder, case):
    table, changes = case
    content = changed(table.content, changes)
    for encoding in (table.codec, None):
        records = read(folder, content, encoding)
        assert_nothing_is_lost_or_invented(lines_of(content), records, first=2)


@fuzz
@given(table=tables(), data=st.data())
def test_damage_anywhere_is_no_crash(folder, table, data):
    content = changed(table.content, [data.draw(edits(table, 0))])
    try:
        records = read(folder, content)
    except UsageError as error:
        assert "x.csv" in str(error)
    else:
        # The header may have taken a record in, as where its line end is gone.
        lines = lines_of(content)
        assert_nothing_is_lost_or_invented(lines, records, records[0].line if records else len(lines) + 1)


@fuzz
@given(case=damaged_tables(most_edits=4))
def test_records_before_the_damage_stay(folder, case):
    table, changes = case
    content = changed(table.content, changes)
    before = [(place.line, place.row.consultation) for place in untouched(table, changes, content) if place.is_before]
    assert found(read(folder, content, table.codec))[: len(before)] == before


def stops_an_open_quote(row: Row) -> bool:
    """Tell whether no record can reach from before `row` into it.

    Where a quote was left open, the first quote of `row` closes it, and must be followed by a comma or a line end, or
    be doubled.
    """
    return re.match(rb'[^"]*"[^",\r\n]', row.raw) is not None


@fuzz
@given(case=damaged_tables())
def test_records_behind_the_damage_stay(folder, case):
    table, changes = case
    content = changed(table.content, changes)
    behind = [place for place in untouched(table, changes, content) if not place.is_before]
    stops = [stops_an_open_quote(place.row) for place in behind]
    quoted = [b'"' in place.row.raw for place in behind]
    # A quote that the damage left open takes nothing along unless the next quote may close it.
    next_quote = quoted.index(True) if True in quoted else None
    if next_quote is not None and not stops[next_quote]:
        behind = behind[stops.index(True) :] if True in stops else []
    kept = found(read(folder, content, table.codec))
    assert {(place.line, place.row.consultation) for place in behind} <= set(kept)


@fuzz
@given(case=damaged_tables(most_edits=4))
def test_records_between_damaged_ones_stay(folder, case):
    table, changes = case
    content = changed(table.content, changes)
    kept = found(read(folder, content, table.codec))
    places = untouched(table, changes, content)
    certain = [place for place in places if stops_an_open_quote(place.row)]
    assert {(place.line, place.row.consultation) for place in certain} <= set(kept)


@fuzz
@given(table=tables(CLOSING_TEXTS, category_first=True), data=st.data())
def test_a_quote_that_another_record_closes_takes_none_along(folder, table, data):
    fields = [match.end() for match in re.finditer(b",", table.content) if match.end() >= guard(table)]
    assume(fields)
    places = data.draw(st.sets(st.sampled_from(fields), min_size=1, max_size=2))
    changes = [Edit(place, place, b'"') for place in sorted(places)]
    content = changed(table.content, changes)
    kept = found(read(folder, content, table.codec))
    # One that has quotes of its own may be the one that closed.
    certain = [place for place in untouched(table, changes, content) if b'"' not in place.row.raw]
    assert {(place.line, place.row.consultation) for place in certain} <= set(kept)


@fuzz
@given(case=damaged_tables(most_edits=4))
def test_what_is_collected_and_rejected_is_what_was_read(folder, case):
    table, changes = case
    content = changed(table.content, changes)
    records = read(folder, content)
    collection = Collection(folder, ReadingOptions(), LengthBounds(), frozenset())
    collection.collect([Source(folder / "x.csv", "x.csv", "内科")], folder / "rejects.jsonl")
    rejects = [json.loads(line) for line in (folder / "rejects.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert collection.read == ({"内科": len(records)} if records else {})
    assert len(rejects) == collection.rejected_by_reason().total()
    duplicates = sum(reject["reason"] == "duplicate" for reject in rejects)
    assert len(collection.rows) - duplicates + len(rejects) == len(records)
    assert len(set(collection.rows)) == collection.table().num_rows
    by_line = {record.line: record.raw for record in records}
    assert all(raw_bytes(reject) == by_line[reject["line"]] for reject in rejects)


JSON_ROWS = st.lists(
    st.fixed_dictionaries({"ask": TEXTS, "answer": TEXTS}, optional={"title": st.none() | TEXTS, "department": TEXTS}),
    max_size=5,
)


@fuzz
@given(rows=JSON_ROWS, codec=CODECS, escaped=st.booleans(), data=st.data())
def test_damage_in_json_lines_costs_the_lines_that_it_hits(folder, rows, codec, escaped, data):
    rows = [{"ask": "问", "answer": "答"}, *rows]
    lines = [(json.dumps(row, ensure_ascii=escaped) + "\n").encode(codec) for row in rows]
    content = b"".join(lines)
    start = data.draw(st.integers(len(lines[0]), len(content)))
    edit = Edit(start, min(start + data.draw(st.integers(0, 30)), len(content)), data.draw(JUNK))
    damaged = changed(content, [edit])
    records = read(folder, damaged, codec, ".jsonl")
    assert_nothing_is_lost_or_invented(re.findall(rb"[^\n]*\n|[^\n]+", damaged), records, first=1)
    sound = [(line, row_texts(row)) for line, row in enumerate(rows, 1)]
    kept = [(line, texts(consultation)) for line, consultation in found(records)]
    hit = content[: edit.start].count(b"\n")
    assert kept[:hit] == sound[:hit]
    # Behind the line in which the damage ends, or the next one if its line end is gone.
    lost = content[: edit.end].count(b"\n") + 1
    more = damaged.count(b"\n") - content.count(b"\n")
    assert {(line + more, fields) for line, fields in sound[lost:]} <= set(kept)


def row_texts(row: dict[str, str | None]) -> tuple[str, ...]:
    return tuple(row.get(name) or "" for name in ("department", "title", "ask", "answer"))


def texts(consultation: Consultation) -> tuple[str, ...]:
    return consultation.sub_department, consultation.title, consultation.question, consultation.answer
