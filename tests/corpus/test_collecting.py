import base64
import json

import pytest

from wenzhen.corpus.collecting import SCHEMA, Collection, FileCount, LengthBounds
from wenzhen.corpus.reading import ReadingOptions
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES, Consultation
from wenzhen.corpus.sources import find_sources

HEADER = "department,title,ask,answer\n"


@pytest.fixture
def collect(tmp_path):
    """Return a function that collects files given as {name: content}: the collection and its rejects."""

    def collect_files(files, bounds=None, skip=frozenset(), **options):
        corpus = tmp_path / "corpus"
        for name, content in files.items():
            path = corpus / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        reading = ReadingOptions(**options)
        sources, _ = find_sources(corpus, reading.department)
        collection = Collection(tmp_path, reading, bounds or LengthBounds(), frozenset(skip))
        collection.collect(sources, tmp_path / "rejects.jsonl")
        lines = (tmp_path / "rejects.jsonl").read_text(encoding="utf-8").split("\n")
        return collection, [json.loads(line) for line in lines[:-1]]

    return collect_files


def raw_bytes(reject):
    """Return the bytes that a rejected record was in its file."""
    if reject["encoding"] == "base64":
        return base64.b64decode(reject["raw"])
    return reject["raw"].encode(reject["encoding"])


def test_a_table_row_is_the_cleaned_record(collect):
    collection, rejects = collect({"x.csv": f"{HEADER} 眼科 , 干涩 ,眼睛 干， 怎么办？,“多眨眼。”\n"})
    record = Consultation("眼科", "", "干涩", "眼睛 干， 怎么办？", "“多眨眼。”")
    table = collection.table()
    assert table.schema == SCHEMA
    assert table.to_pylist() == [
        {
            "id": record.id,
            "department": "眼科",
            "sub_department": "",
            "title": "干涩",
            "question": "眼睛 干， 怎么办？",
            "answer": "“多眨眼。”",
            "too_long": False,
            "question_key": "眼睛干怎么办",
            "answer_key": "多眨眼",
        }
    ]
    assert (collection.rows, rejects) == ([0], [])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("眼科,题,问,\n", "empty answer"),
        ('眼科,题,问,"  \n　"\n', "empty answer"),
        ("眼科,题,问,&nbsp;<br/>\n", "empty answer"),
        ("眼科,,,答\n", "empty question and title"),
        ("眼科,,无,答\n", "empty question and title"),
        ("眼科,无, 无 ,答\n", "empty question and title"),
        ("眼科,无,,答\n", "empty question and title"),
        ("眼科,题,问\n", "wrong number of fields"),
        ("眼科,题,问\0,答\n", "NUL character"),
        (",题,问,答\n", "no department"),
    ],
)
def test_a_record_that_cannot_be_kept_is_written_with_its_place_and_text(collect, row, reason):
    before, after = '眼科,题,"问\n一",答\n', "眼科,题,问三,答三\n"
    collection, rejects = collect({"deep/x.csv": HEADER + before + row + after})
    assert rejects == [{"file": "deep/x.csv", "line": 4, "reason": reason, "encoding": "utf-8", "raw": row}]
    assert collection.table()["question"].to_pylist() == ["问\n一", "问三"]
    assert sum(collection.read.values()) == 3
    assert {reason: 1} in collection.rejected.values() and collection.rejected_by_reason().total() == 1


@pytest.mark.parametrize("question", ["无", " 无 ", ""])
def test_a_title_stands_in_for_a_question(collect, question):
    collection, rejects = collect({"x.csv": f"{HEADER}眼科,眼睛干怎么办,{question},答\n"})
    [row] = collection.table().to_pylist()
    assert (row["question"], row["question_key"], rejects) == ("", "眼睛干怎么办", [])


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
def test_undecodable_bytes_are_given_back_exactly(collect, codec):
    rows = [f"眼科,题,问{i},答案有二十个字那么长才能认出编码\n".encode(codec) for i in range(3)]
    rows[1] = rows[1].replace("答案".encode(codec), b"\xff\x80\x00\xe4")
    collection, [reject] = collect({"x.csv": HEADER.encode() + b"".join(rows)})
    assert (reject["line"], reject["reason"], reject["encoding"]) == (3, "undecodable bytes", "base64")
    assert raw_bytes(reject) == rows[1]
    assert collection.files == [FileCount("x.csv", codec, 3, 2)]
    assert collection.table()["question"].to_pylist() == ["问0", "问2"]


def test_a_text_that_its_encoding_writes_otherwise_is_given_back_exactly(collect):
    # Shift JIS has two codes for ∵; the one that Python writes is not this.
    row = "眼科,題,問".encode("shift_jis") + b"\xfa\x5b\n"
    assert row.decode("cp932").encode("cp932") != row
    _, [reject] = collect({"x.csv": HEADER.encode() + row}, encoding="cp932")
    assert (reject["encoding"], raw_bytes(reject)) == ("base64", row)


@pytest.mark.parametrize("codec", ["utf-8-sig", "gb18030"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_what_is_rejected_is_the_file_again(collect, codec, newline):
    lines = [
        "眼科,题,问,答,多",
        '眼科,题,"问,""一""',
        '续",',
        "眼科,题",
        "",
        '眼科,题,"坏"的,答',
        "眼科,,,答",
        '眼科,题,"永不结束,答',
        "眼科,题,\u2028问,",
        '眼科,"题\x00",问六,答六',
        "眼科,题,问七,",
    ]
    body = newline.join(lines)
    collection, rejects = collect({"x.csv": (HEADER.replace("\n", newline) + body).encode(codec)})
    assert b"".join(map(raw_bytes, rejects)) == body.replace(newline * 2, newline).encode(codec.removesuffix("-sig"))
    assert [reject["line"] for reject in rejects] == [2, 3, 5, 7, 8, 9, 10, 11, 12]
    assert sum(collection.read.values()) == collection.rejected_by_reason().total() == 9
    assert collection.table().num_rows == 0


def test_exact_duplicates_are_dropped_after_cleaning(collect):
    rows = ["眼科,题,问,答", "眼科,题,问二,答", " 眼科 ,题,问 ,<b>答</b>", "耳科,题,问,答", "眼科,题,问？,答"]
    files = {"x.csv": HEADER + "\n".join(rows[:2]), "y.csv": HEADER + "\n".join(rows[2:])}
    collection, [reject] = collect(files)
    assert (reject["file"], reject["line"], reject["reason"]) == ("y.csv", 2, "duplicate")
    assert reject["raw"] == " 眼科 ,题,问 ,<b>答</b>\n"
    assert collection.table()["question"].to_pylist() == ["问", "问二", "问", "问？"]
    # The duplicate shares a row, for whoever wants every record.
    assert collection.rows == [0, 1, 0, 2, 3]
    assert (sum(collection.read.values()), collection.rejected_by_reason().total()) == (5, 1)


def test_duplicates_are_kept_where_they_are_wanted(collect):
    collection, rejects = collect({"x.csv": HEADER + "眼科,题,问,答\n" * 3}, skip={"duplicates"})
    assert (collection.rows, rejects, collection.table().num_rows) == ([0, 0, 0], [], 1)


@pytest.mark.parametrize("drop", [False, True])
def test_long_records_are_marked_or_dropped(collect, drop):
    rows = [("四字问题", "五个字答案"), ("五个字问题", "答"), ("问", "六个字的答案"), ("四字问题", "答")]
    text = HEADER + "".join(f"眼科,题,{question},{answer}\n" for question, answer in rows)
    collection, rejects = collect({"x.csv": text}, LengthBounds(question=4, answer=5, drop=drop))
    expected = [False, False] if drop else [False, True, True, False]
    assert collection.table()["too_long"].to_pylist() == expected
    assert [(reject["line"], reject["reason"]) for reject in rejects] == ([(3, "too long"), (4, "too long")] * drop)


def test_a_title_that_asks_has_the_questions_bound(collect):
    text = f"{HEADER}眼科,五个字标题,无,答\n眼科,五个字标题,问,答\n"
    collection, _ = collect({"x.csv": text}, LengthBounds(question=4, answer=5))
    assert collection.table()["too_long"].to_pylist() == [True, False]


def test_the_six_folders_are_counted_by_department_and_file(collect):
    files = {}
    for number, (department, name) in enumerate(SOURCE_FILES.items()):
        codec = ("utf-8", "gb18030")[number % 2]
        rows = [f"专科,题,{department}的第{row}个问题,这是一个回答\n" for row in range(number + 1)]
        files[name] = (HEADER + "".join(rows) + "坏\n" * (number % 3)).encode(codec)
    files["样例.csv"] = HEADER + "专科,题,问,答\n"
    collection, rejects = collect(files)
    assert list(collection.read) == list(DEPARTMENTS)
    assert collection.read == {name: index + 1 + index % 3 for index, name in enumerate(DEPARTMENTS)}
    assert {name: dict(reasons) for name, reasons in collection.rejected.items()} == {
        name: {"wrong number of fields": index % 3} for index, name in enumerate(DEPARTMENTS) if index % 3
    }
    assert collection.files == [
        FileCount(name, ("utf-8", "gb18030")[index % 2], index + 1 + index % 3, index + 1)
        for index, name in enumerate(SOURCE_FILES.values())
    ]
    table = collection.table()
    assert table["department"].to_pylist() == [name for i, name in enumerate(DEPARTMENTS) for _ in range(i + 1)]
    assert set(table["sub_department"].to_pylist()) == {"专科"}
    assert [reject["file"] for reject in rejects] == [
        name for index, name in enumerate(SOURCE_FILES.values()) for _ in range(index % 3)
    ]


def test_departments_may_be_ones_own(collect):
    text = f"{HEADER}中医科,题,问,答\n眼科,题,问,答\n坏\n眼科,题,问,\n"
    collection, _ = collect({"x.csv": text})
    # What cannot be read names no department.
    assert collection.read == {"中医科": 1, "眼科": 2, "": 1}
    assert collection.rejected == {"": {"wrong number of fields": 1}, "眼科": {"empty answer": 1}}


def test_what_no_folder_assigns_has_the_default(collect):
    files = {name: HEADER for name in SOURCE_FILES.values()}
    files["样例.csv"] = "ask,answer\n问,答\n坏\n"
    collection, _ = collect(files, department="康复科")
    assert (collection.read, collection.table()["department"].to_pylist()) == ({"康复科": 1, "": 1}, ["康复科"])


def test_formats_may_be_mixed_and_records_outnumber_a_batch(collect):
    count = 10_050
    lines = (json.dumps({"department": "眼科", "ask": f"问{i}", "answer": "答"}) + "\n" for i in range(count))
    collection, _ = collect({"a.jsonl": "".join(lines), "b.csv": HEADER + "眼科,题,问0,答\n"})
    table = collection.table()
    assert table["question"].to_pylist() == [*(f"问{i}" for i in range(count)), "问0"]
    assert collection.rows == list(range(count + 1))
    assert [file.kept for file in collection.files] == [count, 1]
