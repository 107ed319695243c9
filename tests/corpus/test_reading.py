import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wenzhen.corpus.reading import ReadingOptions, SourceReader
from wenzhen.corpus.sources import Source
from wenzhen.errors import UsageError

HEADER = "department,title,ask,answer\n"
ROW = "消化科,反酸,饭后反酸三个月,少吃多餐\n"
TEXTS = ["消化科", "反酸", "饭后反酸三个月", "少吃多餐"]


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a content, by default as a file of the department 内科."""

    def read_content(content, suffix=".csv", folder="内科", **options):
        path = tmp_path / f"x{suffix}"
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(SourceReader(Source(path, path.name, folder), ReadingOptions(**options)))

    return read_content


def texts(record):
    kept = record.consultation
    return [kept.sub_department, kept.title, kept.question, kept.answer]


def places(records):
    return [(record.line, record.reason) for record in records]


def json_lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "gb18030"])
def test_encodings_give_the_same_text(read, codec):
    # In GB18030 the second bytes of the first characters are ASCII letters and signs, and the last three characters
    # take four bytes each, of which two are digits.
    text = "丂丄乑乤亃亅亊亄，胃胀㐂𠮷😀"
    assert "丂丄乑乤亃亅亊亄".encode("gb18030")[1::2] == b"@AZaz|~{"
    assert len("㐂𠮷😀".encode("gb18030")) == 12
    [record] = read(f"{HEADER}消化科,题,{text},答\n".encode(codec))
    assert (texts(record), record.line, record.reason) == (["消化科", "题", text, "答"], 2, None)


def test_every_trail_byte_of_gb18030_is_part_of_its_character(read):
    trails = [byte for byte in range(0x40, 0xFF) if byte != 0x7F]
    text = b"".join(bytes((0x81, byte)) for byte in trails).decode("gb18030")
    [record] = read(f'{HEADER}消化科,题,"{text}",{text}\n'.encode("gb18030"))
    assert texts(record)[2:] == [text, text]
    assert len(text) == len(trails) == 190


def test_a_forced_encoding_is_obeyed(read):
    [record] = read(f"{HEADER}骨科,腰痛,坐著痛,多休息\n".encode("big5"), encoding="big5")
    assert texts(record) == ["骨科", "腰痛", "坐著痛", "多休息"]
    # UTF-8 as such, but read as it was asked.
    [record] = read(f"{HEADER}骨科,腰痛,坐着,休息\n", encoding="gb18030")
    assert texts(record)[1] == "腰痛".encode().decode("gb18030") != "腰痛"


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
@pytest.mark.parametrize("forced", [False, True])
def test_one_bad_byte_costs_its_record_alone(read, codec, forced):
    content = (HEADER + ROW * 3).encode(codec)
    start, length = len(HEADER) + len(ROW.encode(codec)), len(ROW.encode(codec))
    for place in range(start, start + length - 1):
        if content[place] < 0x80:
            continue
        damaged = content[:place] + b"\xff" + content[place + 1 :]
        records = read(damaged, encoding=codec if forced else None)
        # Where the second byte of a character in GB18030 is lost, the comma behind stays a comma.
        assert places(records) == [(2, None), (3, "undecodable bytes"), (4, None)]
        assert records[1].raw == damaged[start : start + length]
        assert texts(records[0]) == texts(records[2]) == TEXTS


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
def test_a_file_cut_in_the_middle_of_a_character_keeps_the_rest(read, codec):
    records = read((HEADER + ROW * 2).encode(codec)[:-2])
    assert places(records) == [(2, None), (3, "undecodable bytes")]
    assert texts(records[0]) == TEXTS


def test_a_bad_byte_in_a_column_that_is_not_read_costs_nothing(read):
    content = "ask,answer,备注\n问,答,".encode() + b"\xff\n"
    assert [texts(record) for record in read(content)] == [["", "", "问", "答"]]


def test_utf16_is_refused(read):
    with pytest.raises(UsageError, match="is UTF-16; convert it first"):
        read((HEADER + ROW).encode("utf-16"))
    with pytest.raises(UsageError, match=r"the header of .*x\.csv is not utf-8; name its --encoding"):
        read((HEADER + ROW).encode("utf-16"), encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "department,title,question,answer\n消化科,反酸,饭后反酸三个月,少吃多餐\n",
        " Department ,TITLE,Ask,Answer\n消化科,反酸,饭后反酸三个月,少吃多餐\n",
        "answer,ask,title,department\n少吃多餐,饭后反酸三个月,反酸,消化科\n",
        "no,department,title,ask,answer\n7,消化科,反酸,饭后反酸三个月,少吃多餐\n",
        "科室,标题,问题,回答\n消化科,反酸,饭后反酸三个月,少吃多餐\n",
        "回答,问题,Title,sub_department\n少吃多餐,饭后反酸三个月,反酸,消化科\n",
    ],
)
@pytest.mark.parametrize("codec", ["utf-8-sig", "gb18030"])
def test_columns_are_known_by_name_in_any_order(read, text, codec):
    [record] = read(text.encode(codec))
    assert texts(record) == TEXTS
    assert record.consultation.department == "内科"


def test_title_and_department_may_be_missing(read):
    [record] = read("ask,answer\n问,答\n")
    assert (texts(record), record.consultation.department) == (["", "", "问", "答"], "内科")


@pytest.mark.parametrize(("header", "missing"), [("department,title,ask", "answer"), ("title,answer", "ask")])
def test_a_file_without_a_needed_column_is_refused(read, header, missing):
    with pytest.raises(UsageError, match=rf"x\.csv has no column `{missing}` or .*; its columns are: {header[:5]}"):
        read(f"{header}\n消化科,反酸,问\n")


def test_a_field_with_two_columns_is_refused(read):
    with pytest.raises(UsageError, match=r"more than one column `ask` or `question` or `问题`: ask,.*question"):
        read("ask,answer,question\n问,答,问\n")


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\n"])
def test_an_empty_file_is_refused(read, content):
    with pytest.raises(UsageError, match=r"x\.csv is empty; expected a header"):
        read(content)


def test_a_broken_header_is_refused(read):
    with pytest.raises(UsageError, match=r"x\.csv has malformed quotes in its header"):
        read('"department"x,title,ask,answer\n' + ROW)
    # One that is sound may stand alone.
    assert read(HEADER) == []


def test_each_fault_has_its_reason_and_line_and_raw_bytes(read):
    rows = [
        (b'\xe7\xa7\x91,\xe9\xa2\x98,"\xe9\x97\xae\n\xe7\xbb\xad",\xe7\xad\x94\n', None),
        ("科,题,问\n".encode(), "wrong number of fields"),
        ("科,题,问".encode() + b"\xff,\xe7\xad\x94\n", "undecodable bytes"),
        ("科,题,问\0,答\n".encode(), "NUL character"),
        ('科,题,"问,答\n'.encode(), "unclosed quote"),
        ('科,题,"问"多,答\n'.encode(), "malformed quotes"),
        (f"科,题,问,{'x' * (2**20 + 1)}\n".encode(), "field over 1 MiB"),
        (b"\n", "blank"),
        (ROW.encode(), None),
    ]
    records = read(HEADER.encode() + b"".join(raw for raw, _ in rows))
    expected, line = [], 2
    for raw, reason in rows:
        if reason != "blank":
            expected.append((line, raw, reason))
        line += raw.count(b"\n")
    assert [(record.line, record.raw, record.reason) for record in records] == expected
    assert all((record.consultation is None) == (record.reason is not None) for record in records)


@pytest.mark.parametrize(
    ("header", "row", "reasons"),
    [
        # Only in the column of the departments does a line's beginning tell a record.
        ("department,title,ask,answer", "消化科,反酸,{},少吃", ["unclosed quote"] * 2 + [None] * 2),
        ("sub_department,title,ask,answer", "消化科,反酸,{},少吃", ["unclosed quote"] * 2 + [None] * 2),
        ("title,department,ask,answer", "反酸,消化科,{},少吃", [None, None, None]),
    ],
)
def test_an_open_quote_is_seen_by_the_column_of_departments(read, header, row, reasons):
    bodies = ['"饭后', '反酸"', "反酸", "反酸"]
    records = read("\n".join([header, *map(row.format, bodies)]) + "\n")
    assert [record.reason for record in records] == reasons


@pytest.mark.parametrize(
    ("folder", "options", "department", "sub_department"),
    [
        # In a department's folder the column says the sub-department, as in the original corpus.
        ("内科", {}, "内科", "消化科"),
        ("内科", {"department": "外科"}, "内科", "消化科"),
        (None, {}, "消化科", ""),
        # The column wins.
        (None, {"department": "外科"}, "消化科", ""),
        ("内科", {"columns": {"department": "department"}}, "消化科", ""),
        ("内科", {"columns": {"sub_department": "department"}}, "内科", "消化科"),
        (None, {"columns": {"sub_department": "department"}, "department": "外科"}, "外科", "消化科"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_the_department_comes_from_column_folder_or_option(read, suffix, folder, options, department, sub_department):
    row = {"department": "消化科", "ask": "问", "answer": "答"}
    content = {
        ".csv": "department,ask,answer\n消化科,问,答\n",
        ".jsonl": json_lines(row),
        ".parquet": pa.Table.from_pylist([row]),
    }[suffix]
    [record] = read(content, suffix, folder, **options)
    assert (record.consultation.department, texts(record)[0]) == (department, sub_department)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", "ask,answer\n问,答\n"),
        (".jsonl", json_lines({"ask": "问", "answer": "答"})),
        (".parquet", pa.table({"ask": ["问"], "answer": ["答"]})),
    ],
)
def test_no_department_at_all_is_an_error_that_says_what_to_do(read, suffix, content):
    with pytest.raises(UsageError, match=r"does not say which department .*; give --department NAME"):
        read(content, suffix, folder=None)
    [record] = read(content, suffix, folder=None, department="中医科")
    assert record.consultation.department == "中医科"


def test_an_empty_department_falls_back_or_costs_its_record(read):
    content = "department,ask,answer\n 眼科 ,问,答\n  ,问二,答二\n"
    first, second = read(content, folder=None)
    assert (first.consultation.department, second.reason) == ("眼科", "no department")
    _, second = read(content, folder=None, department="外科")
    assert second.consultation.department == "外科"


def test_columns_are_chosen_by_the_user(read):
    chosen = {"question": "Instruction", "answer": "output", "title": "topic"}
    row = {"Instruction": "问", "input": "", "output": "答", "topic": "题", "department": "眼科"}
    [record] = read(json_lines(row), ".jsonl", None, columns=chosen)
    assert (record.consultation.department, texts(record)) == ("眼科", ["", "题", "问", "答"])


def test_a_chosen_column_wins_over_the_known_names(read):
    [record] = read("ask,answer,回答二\n问,答,别的\n", columns={"answer": "回答二"})
    assert texts(record)[3] == "别的"
    # It serves the field that it was chosen for alone.
    [record] = read("title,question,ask,answer\n题,问一,问二,答\n", columns={"question": "title", "title": "ask"})
    assert texts(record)[1:3] == ["问二", "题"]


@pytest.mark.parametrize("name", ["title", "question", "department"])
def test_a_chosen_column_must_be_there(read, name):
    with pytest.raises(UsageError, match=rf"no column `topic`; .*\(--columns {name}=COLUMN takes another\)"):
        read(HEADER + ROW, columns={name: "topic"})


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "gb18030"])
def test_json_lines_are_read(read, codec):
    content = '{"department":"消化科","title":"反酸","ask":"饭后反酸三个月","answer":"少吃多餐"}'
    records = read(f"{content}\r\n\n  \n{content}".encode(codec), ".jsonl")
    assert [(record.line, texts(record)) for record in records] == [(1, TEXTS), (4, TEXTS)]


def test_a_damaged_line_costs_itself_alone(read):
    sound = '{"ask": "饭后反酸三个月", "answer": "少吃多餐"}\n'.encode()
    rows = [
        (sound, None),
        (b'{"ask": "\xff", "answer": "a"}\n', "undecodable bytes"),
        (b'{"ask": "q", "answer": "a"\n', "malformed JSON"),
        (b"[1, 2]\n", "no JSON object"),
        (b'"text"\n', "no JSON object"),
        (b"[" * 100_000 + b"\n", "malformed JSON"),
        (b'{"ask": ' + b"1" * 5_000 + b', "answer": "a"}\n', "malformed JSON"),
        (b'{"ask": 7, "answer": "a"}\n', "field is not text"),
        (b'{"ask": "q", "answer": ["a"]}\n', "field is not text"),
        (b'{"ask": "q", "answer": true}\n', "field is not text"),
        (b'{"ask": "\\ud83d", "answer": "a"}\n', "undecodable bytes"),
        (b'{"ask": "q\\u0000", "answer": "a"}\n', "NUL character"),
        (b'{"ask": "q", "answer": "\\ud83d\\ude00"}\n', None),
        (sound[:-3], "malformed JSON"),
    ]
    records = read(b"".join(raw for raw, _ in rows), ".jsonl")
    assert [(record.line, record.raw, record.reason) for record in records] == [
        (line, raw, reason) for line, (raw, reason) in enumerate(rows, 1)
    ]
    assert texts(records[-2])[3] == "😀"


def test_a_key_may_be_left_out_or_null_where_there_is_nothing_to_say(read):
    rows = [
        {"ask": "问", "answer": "答"},
        {"department": "消化科", "title": "题", "ask": None, "answer": "答"},
        {"answer": "答", "ask": "问三"},
        {"title": "四"},
        {},
    ]
    assert [texts(record) for record in read(json_lines(*rows), ".jsonl")] == [
        ["", "", "问", "答"],
        ["消化科", "题", "", "答"],
        ["", "", "问三", "答"],
        ["", "四", "", ""],
        ["", "", "", ""],
    ]


def test_a_department_may_be_named_by_some_lines_only(read):
    rows = [{"ask": "问", "answer": "答"}, {"ask": "问", "answer": "答", "department": "眼科"}]
    records = read(json_lines(*rows), ".jsonl", None, department="外科")
    assert [record.consultation.department for record in records] == ["外科", "眼科"]


def test_a_json_array_is_refused_with_a_way_out(read):
    with pytest.raises(UsageError, match="begins with a JSON array; give one object a line"):
        read('[{"ask": "问", "answer": "答"}]', ".jsonl")


def test_each_object_is_read_by_its_own_keys(read):
    rows = [
        {"department": "消化科", "error": "超时"},
        {"ask": "问一", "answer": "答一"},
        {"Question": "问二", "回答": "答二"},
        {"ask": "问三", "question": "问三", "answer": "答三"},
        {"question": "问四", "answer": "答四", "note": 7},
    ]
    records = read(json_lines(*rows), ".jsonl")
    assert places(records) == [(1, None), (2, None), (3, None), (4, "a field in more than one column"), (5, None)]
    assert [texts(record)[2:] for record in records if record.consultation] == [
        ["", ""],
        ["问一", "答一"],
        ["问二", "答二"],
        ["问四", "答四"],
    ]


def test_a_new_key_in_every_object_costs_nothing(read):
    rows = [{"ask": "问", "answer": "答", f"k{number}": "x"} for number in range(3_000)]
    assert {tuple(texts(record)) for record in read(json_lines(*rows), ".jsonl")} == {("", "", "问", "答")}


def test_of_a_key_twice_in_an_object_the_last_value_counts(read):
    [record] = read('{"ask": "问一", "ask": "问二", "answer": "答"}', ".jsonl")
    assert texts(record)[2] == "问二"


@pytest.mark.parametrize(
    "row", [{"error": "超时"}, {}, {"ask": "问"}, {"ask": "问", "question": "问", "answer": "答"}]
)
def test_objects_of_which_none_has_all_columns_are_refused(read, row):
    sound = {"ask": "问", "answer": "答"}
    for rows in ([row], [row] * 1_000 + [sound]):
        with pytest.raises(UsageError, match=r"x\.jsonl has (no|more than one) column `"):
            read(json_lines(*rows), ".jsonl")
    assert len(read(json_lines(*[row] * 999, sound), ".jsonl")) == 1_000


def test_messages_about_columns_are_short_and_of_one_line(read):
    header = ",".join(f"c{number}" for number in range(1_000))
    with pytest.raises(UsageError, match=r"c0, c1, .*c19, … \(1000 in all\)") as error:
        read(f'"一\n二",{"长" * 1_000},{header}\n'.replace('"一\n二",' + "长" * 1_000 + ",", ""))
    with pytest.raises(UsageError, match=r"its columns are: 一\\n二, 长{40}…, c0") as error:
        read(f'"一\n二",{"长" * 1_000},{header}\n')
    assert "\n" not in str(error.value)
    assert "c20" not in str(error.value)


def test_a_column_name_over_a_mebibyte_is_refused_as_such(read):
    with pytest.raises(UsageError, match=r"x\.csv has a column name over 1 MiB in its header"):
        read(f"ask,answer,{'x' * (2**20 + 1)}\n问,答,\n")


def invalid_utf8(kind):
    """Return three texts of which the second is none."""
    return pa.array(["好".encode(), b"\xff\xfeX", None], pa.binary()).view(pa.string()).cast(kind, safe=False)


KINDS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_parquet_texts_of_every_kind_are_read(read, kind):
    table = pa.table(
        {
            name: pa.array([text, None], pa.string()).cast(kind)
            for name, text in zip(("department", "title", "ask", "answer"), TEXTS, strict=True)
        }
    )
    records = read(table, ".parquet")
    assert [texts(record) for record in records] == [TEXTS, ["", "", "", ""]]
    assert places(records) == [(1, None), (2, None)]
    assert json.loads(records[0].raw) == dict(zip(("department", "title", "ask", "answer"), TEXTS, strict=True))


@pytest.mark.parametrize("kind", [kind for name, kind in KINDS.items() if name != "dictionary"])
def test_invalid_utf8_in_a_value_costs_its_row_alone(read, kind):
    records = read(pa.table({"ask": invalid_utf8(kind), "answer": ["一", "二", "三"]}), ".parquet")
    assert places(records) == [(1, None), (2, "undecodable bytes"), (3, None)]
    assert json.loads(records[1].raw) == {"ask": r"\xff\xfeX", "answer": "二"}
    assert [texts(record)[2:] for record in (records[0], records[2])] == [["好", "一"], ["", "三"]]


def test_invalid_utf8_in_a_dictionary_is_an_error(read):
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0]), invalid_utf8(pa.string())[:2])
    with pytest.raises(UsageError, match=r"x\.parquet cannot be read as Parquet: Invalid UTF8"):
        read(pa.table({"ask": column, "answer": ["一", "二"]}), ".parquet")


def test_rows_are_counted_over_batches(read):
    count = 12_001
    records = read(pa.table({"ask": [f"问{i}" for i in range(count)], "answer": ["答"] * count}), ".parquet")
    assert [(record.line, texts(record)[2]) for record in records] == [(i + 1, f"问{i}") for i in range(count)]


def test_a_parquet_column_that_is_no_text_is_refused(read):
    with pytest.raises(UsageError, match=r"x\.parquet: the column `answer` holds int64, not text"):
        read(pa.table({"ask": ["问"], "answer": [7]}), ".parquet")
    # One that is not read may hold anything, one that is empty nothing.
    table = pa.table({"ask": ["问"], "answer": ["答"], "year": [7], "title": pa.nulls(1)})
    assert [texts(record) for record in read(table, ".parquet")] == [["", "", "问", "答"]]


def test_one_column_may_serve_two_fields(read):
    columns = {"question": "text", "title": "text"}
    [record] = read(pa.table({"text": ["问"], "answer": ["答"]}), ".parquet", columns=columns)
    assert texts(record) == ["", "问", "问", "答"]


@pytest.mark.parametrize("damage", ["empty", "cut", "no parquet", "bad page", "bad name"])
def test_a_damaged_parquet_file_is_refused_by_name(read, tmp_path, damage):
    path = tmp_path / "sound.parquet"
    pq.write_table(pa.table({"ask": ["问" * 10_000], "answer": ["答" * 10_000]}), path, use_dictionary=False)
    sound = path.read_bytes()
    content = {
        "empty": b"",
        "cut": sound[:-9],
        "no parquet": HEADER.encode(),
        "bad page": sound[:60] + b"\xff" * 100 + sound[160:],
        "bad name": sound.replace(b"answer", b"answe\xff"),
    }[damage]
    with pytest.raises(UsageError, match=r"x\.parquet cannot be read as Parquet: "):
        read(content, ".parquet")
