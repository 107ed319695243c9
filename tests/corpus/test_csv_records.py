import csv
import io

import pytest

from wenzhen.corpus.csv_records import CsvRecords

HEADER = "科室,标题,问题,回答\n"
FIRST = "骨科,肩痛,抬手疼,先休息\n"
LAST = '骨科,"腰痛","弯腰疼,坐着也疼","热敷"\n'


@pytest.fixture
def read(tmp_path):
    """Return a function that gives the header and the records of a text as (line, raw, fields, reason)."""

    def read_text(text, codec="utf-8", category_first=False):
        def decode(value):
            return value.encode("latin-1").decode(codec)

        path = tmp_path / "x.csv"
        path.write_bytes(text.encode(codec))
        with path.open(encoding="latin-1", newline="") as file:
            records = CsvRecords(path, file)
            records.category_first = category_first
            header = [decode(name) for name in records.header]
            return header, [(r.line, decode(r.raw), [decode(v) for v in r.values], r.reason) for r in records]

    return read_text


SOUND = {
    "quoted comma": '骨科,题,"疼,肿",答\n',
    "doubled quotes": '骨科,题,"他说""疼""了","""疼"""\n',
    "line breaks in a field": '骨科,题,"第一行\n第二行\n\n第四行",答\n骨科,题,问二,答二\n',
    "CRLF": "骨科,题,问,答\r\n骨科,题,问二,答二\r\n",
    "CRLF in a field": '骨科,题,"问\r\n续",答\r\n',
    "lone CR": '骨科,题,问,答\r骨科,题,"问\r续",答二\r',
    "all line ends": '骨科,题,"一\r二\n三\r\n四",答\n骨科,题,问,答\r骨科,题,问,答\r\n骨科,题,问,答\n',
    "no last line end": "骨科,题,问,答\n骨科,题,问二,答二",
    "no last line end behind a quote": '骨科,题,问,"答"',
    "quote inside a field without quotes": '骨科,题,问"中"引号,答"\n',
    "white space": ' 骨科 ,\t题, "问" ,　答\n',
    "line ends of Unicode": "骨科,题,问\u2028续\x85\x0b\x0c\x1c续,答\n",
    "NUL": "骨科,题,问\x00,答\n",
    "empty fields": ',,,\n"","","",""\n',
    "everything quoted": '"骨科","题","问","答"\n"骨科","题","问,\n","答"\n',
    "a comma first in a field": '骨科,题,",问",",答"\n骨科,题,"\n问","答\n"\n',
    "rare characters": "骨科,𠮷,㐂😀,龘\n",
}


@pytest.mark.parametrize("body", SOUND.values(), ids=SOUND)
@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
@pytest.mark.parametrize("category_first", [False, True])
def test_sound_records_are_those_of_the_csv_module(read, body, codec, category_first):
    _, records = read(HEADER + body, codec, category_first)
    assert [fields for *_, fields, _ in records] == list(csv.reader(io.StringIO(body, newline="")))
    assert {reason for *_, reason in records} == {None}


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    "header",
    [HEADER, '"科室","标题","问题","回答"\n', "\n \r\n" + HEADER, "科室,标题,问题,回答\r", "科室,标题,问题,回答\r\n"],
)
def test_the_header_is_found_behind_a_byte_order_mark_and_blank_lines(read, codec, mark, header):
    found, [record] = read(mark + header + FIRST, codec)
    assert found == ["科室", "标题", "问题", "回答"]
    blank_lines = 2 if header.startswith("\n") else 0
    assert record == (blank_lines + 2, FIRST, ["骨科", "肩痛", "抬手疼", "先休息"], None)


def test_a_column_name_may_hold_a_line_break(read):
    header, [(line, raw, *_)] = read('科室,标题,问题,回答,"备注\n说明"\n骨科,题,问,答,无\n')
    assert header[-1] == "备注\n说明"
    assert (line, raw) == (3, "骨科,题,问,答,无\n")


@pytest.mark.parametrize("text", ["", "\ufeff", "\n\n", " \r\n"])
def test_what_holds_no_header_holds_nothing(read, text):
    assert read(text) == ([], [])


@pytest.mark.parametrize("header", ['"科室"x,标题\n', '科室,"标题\n'])
def test_malformed_quotes_in_the_header_are_an_error(read, header):
    with pytest.raises(csv.Error):
        read(header + FIRST)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_blank_lines_are_no_records_but_count_as_lines(read, newline):
    text = (HEADER + "\n" + FIRST + " \n\t\n\n" + LAST + "\n").replace("\n", newline)
    _, records = read(text)
    assert [(line, raw) for line, raw, *_ in records] == [
        (3, FIRST.replace("\n", newline)),
        (7, LAST.replace("\n", newline)),
    ]


FAULTS = {
    "quote alone": ['"\n', "unclosed quote"],
    "one field too few": ["骨科,题,问\n", "wrong number of fields"],
    "one field too many": ["骨科,题,问,答,多\n", "wrong number of fields"],
    "an empty field in quotes is not blank": ['""\n', "wrong number of fields"],
    "an ideographic space is not blank": ["　\n", "wrong number of fields"],
    "a control character is not blank": ["\x85\xa0\n", "wrong number of fields"],
    "text behind a quote": ['骨科,题,"问"多,答\n', "malformed quotes"],
    "space behind a quote": ['骨科,题,"问" ,答\n', "malformed quotes"],
    "single quote too many": ['骨科,题,"问"",答"x\n', "malformed quotes"],
    "quote never closed": ['骨科,题,"问,答\n', "unclosed quote"],
    "quote never closed at the end": ['骨科,题,问,"答\n', "unclosed quote"],
}


@pytest.mark.parametrize(("row", "reason"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("after", [LAST, FIRST + LAST, FIRST, ""], ids=["quoted", "both", "plain", "nothing"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("category_first", [False, True])
def test_a_fault_costs_its_record_alone(read, row, reason, after, newline, category_first):
    # The record before has a line break in a field, so records and lines are not numbered alike.
    before = '骨科,题,"问\n续",答\n'
    text = (HEADER + before + row + after).replace("\n", newline)
    _, [(_, _, sound, _), damaged, *others] = read(text, category_first=category_first)
    assert sound == ["骨科", "题", f"问{newline}续", "答"]
    assert damaged == (4, row.replace("\n", newline), [], reason)
    rows = csv.reader(io.StringIO(after, newline=""))
    assert others == [
        (5 + index, line.replace("\n", newline), fields, None)
        for index, (line, fields) in enumerate(zip(after.splitlines(keepends=True), rows, strict=True))
    ]


def test_faults_in_a_row_cost_each_its_own_record(read):
    rows = [row for row, _ in FAULTS.values()]
    _, records = read(HEADER + FIRST + "".join(rows) + LAST)
    assert [raw for _, raw, *_ in records] == [FIRST, *rows, LAST]
    assert [line for line, *_ in records] == list(range(2, len(rows) + 4))
    assert [bool(reason) for *_, reason in records] == [False, *[True] * len(rows), False]


def test_of_a_damaged_record_on_several_lines_each_line_is_given_back(read):
    lines = ['骨科,题,"问\n', "续\n", '再续",答,多\n']
    _, records = read(HEADER + "".join(lines) + FIRST)
    assert [(line, raw, reason) for line, raw, _, reason in records] == [
        *((line, raw, "wrong number of fields") for line, raw in enumerate(lines, 2)),
        (5, FIRST, None),
    ]


def test_a_field_of_a_mebibyte_is_read_and_a_longer_one_rejected(read):
    fits, longer = (f"骨科,题,问,{'x' * length}\n" for length in (2**20, 2**20 + 1))
    _, records = read(HEADER + fits + longer + LAST)
    assert [(line, raw, reason) for line, raw, _, reason in records] == [
        (2, fits, None),
        (3, longer, "field over 1 MiB"),
        (4, LAST, None),
    ]
    assert len(records[0][2][3]) == 2**20


def test_the_length_is_that_in_the_file(read):
    # Half a mebibyte of characters, of two bytes each in GB18030 and three in UTF-8.
    row = f"骨科,题,问,{'疼' * 2**19}\n"
    assert [reason for *_, reason in read(HEADER + row, "gb18030")[1]] == [None]
    assert [reason for *_, reason in read(HEADER + row, "utf-8")[1]] == ["field over 1 MiB"]


def test_a_quote_left_open_over_a_mebibyte_costs_its_line_alone(read):
    rows = [f"骨科,题,问{number},{'疼' * 1000}\n" for number in range(500)]
    _, records = read(HEADER + '骨科,题,"问,答\n' + "".join(rows))
    assert [(line, reason) for line, _, _, reason in records if reason] == [(2, "unclosed quote")]
    assert [raw for _, raw, *_ in records[1:]] == rows


# The second record's quote closes what the first one left open; together they have four fields.
CLOSED_BY_ANOTHER = ['骨科,扭伤,"脚踝肿了,先冰敷\n', '骨科,肩痛,医生说是冻结肩",要锻炼\n']
SINGLE = "内科,咳嗽,咳了三天,多喝水\n"


def test_an_open_quote_that_a_later_record_closes_shows_by_the_category(read):
    text = HEADER + FIRST + "".join(CLOSED_BY_ANOTHER) + FIRST
    _, records = read(text, category_first=True)
    assert records == [
        (2, FIRST, ["骨科", "肩痛", "抬手疼", "先休息"], None),
        (3, CLOSED_BY_ANOTHER[0], [], "unclosed quote"),
        (4, CLOSED_BY_ANOTHER[1], [], "unclosed quote"),
        (5, FIRST, ["骨科", "肩痛", "抬手疼", "先休息"], None),
    ]
    # Nothing tells it from a field with a line break where the first column is anything.
    _, records = read(text)
    assert [raw for _, raw, *_ in records] == [FIRST, "".join(CLOSED_BY_ANOTHER), FIRST]


@pytest.mark.parametrize(
    "field",
    [
        "你好\n骨科,挂号,都行",  # two commas
        "你好\n外科,先拍片,再看,再说",  # no category here
        "你好\n内科,先拍片,再看,再说",  # one record alone has this first value
        "分析\n你好,看描述,考虑,肩周炎\n祝好",  # the inner line comes twice in the file, but begins no record
        "可以挂\n骨科,外科,儿科,都行\n谢谢",  # the closing line is no record
        "可以挂\n骨科,外科,儿科,都行\n骨科,或者,外科,都,行",  # five fields
    ],
)
def test_a_line_in_a_field_that_begins_no_record_is_text(read, field):
    body = f'{FIRST}{SINGLE}骨科,题,问,"{field}"\n骨科,题,问二,"{field}"\n{FIRST}'
    _, records = read(HEADER + body, category_first=True)
    assert [fields for *_, fields, _ in records] == list(csv.reader(io.StringIO(body, newline="")))


def test_the_category_is_known_in_any_order_of_records(read):
    # What is seen first is the record that swallows.
    _, records = read(HEADER + "".join(CLOSED_BY_ANOTHER) + FIRST * 2, category_first=True)
    assert [reason for *_, reason in records] == ["unclosed quote", "unclosed quote", None, None]


@pytest.mark.parametrize("category_first", [False, True])
def test_the_records_between_an_open_quote_and_what_closes_it_are_kept(read, category_first):
    between = [f"骨科,题{number},问{number},答{number}\n" for number in range(4)]
    _, records = read(
        HEADER + CLOSED_BY_ANOTHER[0] + "".join(between) + CLOSED_BY_ANOTHER[1] + FIRST, "utf-8", category_first
    )
    assert [(raw, reason) for _, raw, _, reason in records] == [
        (CLOSED_BY_ANOTHER[0], "unclosed quote"),
        *((raw, None) for raw in between),
        (CLOSED_BY_ANOTHER[1], "unclosed quote"),
        (FIRST, None),
    ]


@pytest.mark.parametrize(
    "field",
    [
        "一,二,三,四\n" * 3,  # three lines of four fields
        "一,二,三,四\n" * 9 + "完",  # the closing line is no record
        "一,二,三,四\n" * 9 + "一,二,三\n" + "一,二,三,四",  # one line between is none
    ],
)
def test_some_lines_that_look_like_records_are_text(read, field):
    body = f'头,题,问,"如下\n{field}"\n{FIRST}'
    _, records = read(HEADER + body)
    assert [fields for *_, fields, _ in records] == list(csv.reader(io.StringIO(body, newline="")))


def test_a_list_in_a_file_of_two_columns_is_text(read):
    steps = "\n".join(f"{number},多喝水" for number in range(1, 9))
    _, records = read(f'问题,回答\n咳嗽,"建议:\n{steps}"\n')
    assert [fields for *_, fields, _ in records] == [["咳嗽", f"建议:\n{steps}"]]


def test_in_a_single_column_no_line_is_a_record(read):
    text = "\n".join("一二三四")
    _, records = read(f'正文\n"{text * 5}"\n')
    assert [fields for *_, fields, _ in records] == [[text * 5]]


def test_a_closing_line_that_alone_is_over_a_mebibyte_is_no_crash(read):
    half = "x" * 600_000
    _, records = read(f'{HEADER}骨科,"题\n,"",",{half},{half}\n{FIRST}{FIRST}', category_first=True)
    assert [fields[1] for *_, fields, _ in records] == ['题\n,",', "肩痛", "肩痛"]


def test_a_record_of_256_lines_is_read_and_a_longer_one_given_back_by_lines(read):
    fits, longer = (f'骨科,题,问,"{f"续{chr(10)}" * lines}"\n' for lines in (255, 256))
    _, records = read("\n" * 300 + HEADER + fits + longer + FIRST)
    assert [(line, raw) for line, raw, _, reason in records if not reason] == [(302, fits), (302 + 256 + 257, FIRST)]
    assert [reason for *_, reason in records[1:-1]] == ["unclosed quote"] + ["wrong number of fields"] * 255 + [
        "unclosed quote"
    ]


def test_lines_that_each_open_a_quote_are_given_back_one_by_one(read):
    lines = [f'x{number}","y\n' for number in range(1_000)]
    _, records = read(HEADER + "".join(lines))
    assert [raw for _, raw, *_ in records] == lines
    assert all(reason for *_, reason in records)
