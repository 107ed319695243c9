import csv
import io

import pytest

from wenzhen.corpus.reading import find_files, read_csv
from wenzhen.corpus.schema import SOURCE_FILES
from wenzhen.errors import UsageError

HEADER = "department,title,ask,answer\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text, encoding="utf-8"):
        path = tmp_path / "内科.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return list(read_csv(path, "内科"))

    return read_text


def fields(record):
    kept = record.consultation
    return [kept.sub_department, kept.title, kept.question, kept.answer]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_encodings_give_the_same_text(read, encoding):
    # In GB18030 the last three characters take four bytes each.
    text = "胃痛，发热㐂𠮷😀"
    assert len("㐂𠮷😀".encode("gb18030")) == 12
    [record] = read(f"{HEADER}消化科,题,{text},答\n", encoding)
    assert fields(record) == ["消化科", "题", text, "答"]
    assert (record.line, record.reason) == (2, None)


def test_utf8_that_would_pass_for_gb18030_is_read_as_utf8(read):
    text = f"{HEADER}内科,胃痛,胃痛两天,少吃\n"
    assert text.encode("utf-8").decode("gb18030") != text
    assert fields(read(text)[0]) == ["内科", "胃痛", "胃痛两天", "少吃"]


@pytest.mark.parametrize(
    "body",
    [
        '科,题,"胃痛,发热","多喝水,休息"\n',
        '科,题,"他说""痛""两天",答\n',
        '科,题,"第一行\n第二行\n\n第四行",答\n科,题,问二,答二\n',
        "科,题,问,答\r\n科,题,问二,答二\r\n",
        '科,题,"问\r\n续",答\r\n',
        "科,题,问,答\r科,题,问二,答二\r",
        "科,题,问,答\n科,题,问二,答二",
        '科,题,问,"答，无换行"',
        '科,题,问"中"引号,答\n',
        "科,题,问\u2028续\x85\x0b\x0c续,答\n",
        "科,题,问\x00,答\n",
    ],
)
def test_records_equal_those_of_the_csv_module(read, body):
    expected = list(csv.reader(io.StringIO(body, newline="")))
    assert [fields(record) for record in read(HEADER + body)] == expected


def test_blank_lines_are_no_records_but_count_as_lines(read):
    records = read(HEADER + "\n科,题,问,答\n\r\n\n科,题,问二,答二\n\n")
    assert [(record.line, record.consultation.question) for record in records] == [(3, "问"), (6, "问二")]


def test_fields_are_cleaned_and_the_department_is_that_of_the_folder(read):
    [record] = read(HEADER + " 消化科 , 题 , 问 , 答 \n")
    assert fields(record) == ["消化科", "题", "问", "答"]
    assert record.consultation.department == "内科"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("科,题,问\n", "wrong number of fields"),
        ("科,题,问,答,多\n", "wrong number of fields"),
        (" \n", "wrong number of fields"),
        ("科,题,问,\n", "empty answer"),
        ('科,题,问,"  \n "\n', "empty answer"),
        ("科,,,答\n", "empty question and title"),
        ("科,,无,答\n", "empty question and title"),
        ("科,无, 无 ,答\n", "empty question and title"),
        ('科,题,"问"多,答\n', "malformed quotes"),
    ],
)
def test_a_rejected_record_comes_with_reason_line_and_raw_text(read, row, reason):
    # The record before has a line break in a field, so records and lines are not numbered alike.
    before, record, after = read(f'{HEADER}科,题,"问\n续",答\n{row}科,题,问三,答三\n')
    assert (record.reason, record.line, record.raw, record.consultation) == (reason, 4, row, None)
    assert (before.consultation.question, after.consultation.question) == ("问\n续", "问三")
    assert after.line == 4 + row.count("\n")


@pytest.mark.parametrize("question", ["无", " 无 ", ""])
def test_a_title_stands_in_for_a_question(read, question):
    [record] = read(f"{HEADER}科,胃痛怎么办,{question},答\n")
    assert (record.reason, record.consultation.question) == (None, "")
    assert record.consultation.question_text == "胃痛怎么办"


@pytest.mark.parametrize(
    "bad",
    ['科,题,"问"多,答\n', '科,题,"问" ,答\n', '科,题,"没有结束的引号,答\n'],
    ids=["text after a quote", "space after a quote", "open quote"],
)
@pytest.mark.parametrize(
    "after",
    ["科,题,问二,答二\n科,题,问三,答三\n", '科,题,"问,二","答二"\n科,题,"问三",答三\n', ""],
    ids=["before plain records", "before quoted records", "at the end"],
)
def test_malformed_quotes_cost_no_other_record(read, bad, after):
    expected = [["科", "题", "问一", "答一"], *csv.reader(io.StringIO(after, newline=""))]
    records = read(f"{HEADER}科,题,问一,答一\n{bad}{after}")
    assert [fields(record) for record in records if record.consultation] == expected
    assert [(record.line, record.raw) for record in records if record.reason] == [(3, bad)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_raw_texts_are_the_file_again(read, newline):
    lines = [
        "科,题,问,答",
        '科,题,"问,""一""',
        '续",答',
        "科,题",
        '科,题,"坏"的,答',
        "科,题,无,答",
        "科,,,答",
        '科,题,"永不结束,答',
        "科,题,问五,答五",
        '科,"题",问六,答六',
        "科,题,问七,",
    ]
    body = newline.join(lines)
    records = read(HEADER.replace("\n", newline) + body)
    assert "".join(record.raw for record in records) == body
    starts = [2 + body[: body.index(record.raw)].count("\n") for record in records]
    assert [record.line for record in records] == starts
    assert all((record.consultation is None) == (record.reason is not None) for record in records)


@pytest.mark.parametrize(("header", "column"), [("department,title,ask", "answer"), ("title,answer", "ask")])
def test_a_header_without_a_needed_column_is_refused(read, header, column):
    with pytest.raises(UsageError) as error:
        read(f"{header}\n科,题,问\n")
    assert "内科.csv" in str(error.value) and f"`{column}`" in str(error.value)


def test_a_header_with_malformed_quotes_is_refused(read):
    with pytest.raises(UsageError, match=r"内科\.csv"):
        read('"department"x,title,ask,answer\n科,题,问,答\n')


@pytest.mark.parametrize(
    "text",
    [
        "department,title,question,answer\n科,题,问,答\n",
        " Department ,TITLE,Ask,Answer\n科,题,问,答\n",
        "answer,ask,title,department\n答,问,题,科\n",
        "no,department,title,ask,answer\n7,科,题,问,答\n",
    ],
)
def test_columns_are_known_by_name(read, text):
    assert [fields(record) for record in read(text)] == [["科", "题", "问", "答"]]


def test_title_and_department_are_optional(read):
    assert [fields(record) for record in read("ask,answer\n问,答\n")] == [["", "", "问", "答"]]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(read, content):
    with pytest.raises(UsageError, match=r"内科\.csv is empty"):
        read(content)


def test_a_header_alone_holds_no_records(read):
    assert read(HEADER) == []


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_an_undecodable_file_is_refused_with_the_place(read, encoding):
    before = f"{HEADER}科,题,问,答\n科,题,问二,答二\n科,题,问三,".encode(encoding)
    # 0xFF begins no character in either encoding.
    with pytest.raises(UsageError) as error:
        read(before + b"\xff\n")
    assert f"内科.csv is neither UTF-8 nor GB18030: byte {len(before)} (line 4)" in str(error.value)


def write_files(folder, departments):
    for department in departments:
        path = folder / "Data_数据" / SOURCE_FILES[department]
        path.parent.mkdir(parents=True)
        path.write_text(HEADER, encoding="utf-8")


def test_find_files_finds_the_originals_folders_and_nothing_else(tmp_path):
    write_files(tmp_path, SOURCE_FILES)
    (tmp_path / "样例.csv").write_text(HEADER, encoding="utf-8")
    second = tmp_path / "内科" / "更多.csv"
    second.parent.mkdir()
    second.write_text(HEADER, encoding="utf-8")
    expected = {name: [tmp_path / "Data_数据" / path] for name, path in SOURCE_FILES.items()}
    expected["内科"].append(second)
    deeper = tmp_path / "Data_数据" / "Surgical_外科" / "补充" / "更多.CSV"
    deeper.parent.mkdir()
    deeper.write_text(HEADER, encoding="utf-8")
    expected["外科"].append(deeper)
    (tmp_path / "again").symlink_to(tmp_path)
    files, ignored = find_files(tmp_path)
    assert files == {name: sorted(paths) for name, paths in expected.items()}
    assert ignored == ["样例.csv"]


@pytest.mark.parametrize("missing", SOURCE_FILES)
def test_find_files_names_the_missing_department(tmp_path, missing):
    write_files(tmp_path, [name for name in SOURCE_FILES if name != missing])
    with pytest.raises(UsageError, match="5 of the 6") as error:
        find_files(tmp_path)
    assert f"missing: {missing} (as {SOURCE_FILES[missing]}:" in str(error.value)


@pytest.mark.parametrize("kind", ["file", "nothing"])
def test_find_files_refuses_what_is_no_folder(tmp_path, kind):
    path = tmp_path / "语料"
    if kind == "file":
        path.write_text(HEADER, encoding="utf-8")
    with pytest.raises(UsageError, match="语料 is not a folder"):
        find_files(path)
