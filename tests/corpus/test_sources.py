import codecs
import errno
import os
from pathlib import Path

import pytest

from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES
from wenzhen.corpus.sources import Source, check_encoding, detect_encoding, find_sources
from wenzhen.errors import UsageError

HEADER = "department,title,ask,answer\n"
# 25 characters beyond ASCII.
TEXT = HEADER + "骨科,手腕扭伤,昨天打球扭了手腕,先冰敷再固定两周\n"


def place(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEADER, encoding="utf-8")


def names_of(sources):
    return [source.name for source in sources]


@pytest.fixture
def originals(tmp_path):
    """Return a folder with the original corpus' six files."""
    folder = tmp_path / "corpus"
    place(folder, *SOURCE_FILES.values())
    return folder


def test_the_six_folders_are_found_in_the_departments_order(originals):
    sources, ignored = find_sources(originals)
    expected = [Source(originals / name, name, department) for department, name in SOURCE_FILES.items()]
    assert (sources, ignored) == (expected, [])


def test_files_may_lie_deeper_and_have_any_name_and_known_format(originals):
    place(originals, "内科/b.CSV", "内科/a.jsonl", "更多/Pediatric_儿科/补充/c.parquet", "内科/notes.txt")
    sources, ignored = find_sources(originals)
    found = {department: names_of(s for s in sources if s.department == department) for department in DEPARTMENTS}
    assert [source.department for source in sources] == sorted(
        (source.department for source in sources), key=DEPARTMENTS.index
    )
    assert set(found["内科"]) == {SOURCE_FILES["内科"], "内科/a.jsonl", "内科/b.CSV"}
    assert set(found["儿科"]) == {SOURCE_FILES["儿科"], "更多/Pediatric_儿科/补充/c.parquet"}
    assert ignored == []


def test_the_nearest_folder_names_the_department(originals):
    place(originals, "内科/转来_外科/x.csv")
    [source] = [source for source in find_sources(originals)[0] if source.name == "内科/转来_外科/x.csv"]
    assert source.department == "外科"


@pytest.mark.parametrize("missing", DEPARTMENTS)
def test_a_missing_department_is_named(tmp_path, missing):
    place(tmp_path, *(name for department, name in SOURCE_FILES.items() if department != missing))
    with pytest.raises(UsageError, match="5 of the 6") as error:
        find_sources(tmp_path)
    assert f"missing: {missing} (as {SOURCE_FILES[missing]}:" in str(error.value)


def test_a_file_outside_the_departments_is_ignored_and_named(originals):
    place(originals, "样例.csv", "archive/old.jsonl")
    sources, ignored = find_sources(originals)
    assert ignored == ["archive/old.jsonl", "样例.csv"]
    assert names_of(sources) == list(SOURCE_FILES.values())


def test_a_file_outside_the_departments_is_taken_where_there_is_a_default(originals):
    place(originals, "样例.csv")
    sources, ignored = find_sources(originals, "内科")
    assert names_of(sources) == [*SOURCE_FILES.values(), "样例.csv"]
    assert (sources[-1].department, ignored) == (None, [])


def test_without_departments_every_file_is_taken_by_name(tmp_path):
    place(tmp_path, "b.csv", "a/c.jsonl", "a.parquet")
    sources, ignored = find_sources(tmp_path)
    assert sources == [Source(tmp_path / name, name) for name in ("a/c.jsonl", "a.parquet", "b.csv")]
    assert ignored == []


@pytest.mark.parametrize("name", ["x.csv", "x.JSONL", "x.parquet"])
def test_one_file_is_taken_as_it_is(tmp_path, name):
    place(tmp_path, f"内科/{name}")
    assert find_sources(tmp_path / "内科" / name) == ([Source(tmp_path / "内科" / name, name)], [])


def test_links_are_followed_and_loops_end(originals, tmp_path):
    place(tmp_path, "disk/x.csv", "single.csv")
    (originals / "IM_内科" / "linked").symlink_to(tmp_path / "disk")
    (originals / "Surgical_外科" / "单独.csv").symlink_to(tmp_path / "single.csv")
    (originals / "again").symlink_to(originals)
    (originals / "IM_内科" / "up").symlink_to(originals / "IM_内科")
    (originals / "dangling.csv").symlink_to(tmp_path / "nowhere.csv")
    (originals / "self.csv").symlink_to(originals / "self.csv")
    sources, ignored = find_sources(originals)
    assert sorted(names_of(sources)) == sorted(
        [*SOURCE_FILES.values(), "IM_内科/linked/x.csv", "Surgical_外科/单独.csv"]
    )
    assert ignored == ["dangling.csv", "self.csv"]


def test_what_is_named_like_a_file_and_is_none_is_ignored_and_named(tmp_path):
    place(tmp_path, "a.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "nowhere.csv")
    os.mkfifo(tmp_path / "c.jsonl")
    sources, ignored = find_sources(tmp_path)
    assert (names_of(sources), ignored) == (["a.csv"], ["b.csv", "c.jsonl"])


def test_a_folder_that_cannot_be_listed_is_a_failure_that_names_it(tmp_path, monkeypatch):
    place(tmp_path, "a.csv", "locked/b.csv")
    list_folder = os.scandir

    def refuse(folder):
        # File modes do not stop root.
        if Path(folder).name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return list_folder(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="locked"):
        find_sources(tmp_path)


@pytest.mark.parametrize(
    ("name", "shown"), [(b"\xff.csv", r"\udcff.csv"), (b"a\nb.csv", r"a\nb.csv"), ("骨 科.csv".encode(), "骨 科.csv")]
)
def test_names_of_files_can_be_printed(tmp_path, name, shown):
    path = tmp_path / os.fsdecode(name)
    path.write_text(HEADER, encoding="utf-8")
    for where in (path, tmp_path):
        [source] = find_sources(where)[0]
        assert (source.path, source.name) == (path, shown)


@pytest.mark.parametrize("link", ["aaa", "zzz", "IM_肿瘤科"])
def test_a_link_to_a_neighbour_reads_nothing_twice(tmp_path, link):
    # Whether the link's name comes before or after the folder's.
    place(tmp_path, "内科/x.csv")
    (tmp_path / link).symlink_to(tmp_path / "内科")
    place(tmp_path, *(f"{department}/x.csv" for department in DEPARTMENTS))
    sources, _ = find_sources(tmp_path)
    assert names_of(sources) == [f"{department}/x.csv" for department in DEPARTMENTS]


def test_hidden_files_are_none_of_the_corpus(originals):
    # Notebook checkpoints, what macOS packs beside each file, and what a killed run leaves of a corpus.
    hidden = ("内科/.ipynb_checkpoints/x.csv", "内科/._x.csv", ".corpus-a1b2c3d4/new/内科/x.csv")
    place(originals, *hidden)
    sources, ignored = find_sources(originals)
    assert (names_of(sources), ignored) == (list(SOURCE_FILES.values()), [])
    assert names_of(find_sources(originals / hidden[0])[0]) == ["x.csv"]


def test_what_holds_no_corpus_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nowhere is neither a file nor a folder"):
        find_sources(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"holds no file of the kinds \.csv, \.jsonl, \.parquet"):
        find_sources(tmp_path)
    (tmp_path / "记录.xlsx").touch()
    with pytest.raises(UsageError, match=r"记录\.xlsx is not one of \.csv, \.jsonl, \.parquet"):
        find_sources(tmp_path / "记录.xlsx")


def detect(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    return detect_encoding(path)


@pytest.mark.parametrize("text", [TEXT, HEADER, "", TEXT + "泌尿科,𠮷,㐂,😀\n"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig"])
def test_utf8_is_known(tmp_path, text, codec):
    assert detect(tmp_path, text.encode(codec)) == "utf-8"


def test_utf8_is_tried_before_gb18030(tmp_path):
    # Also sound as GB18030: 肩痛 in UTF-8 is six bytes, which make three characters there.
    assert len("肩痛".encode().decode("gb18030")) == 3
    assert detect(tmp_path, "肩痛".encode()) == "utf-8"


@pytest.mark.parametrize("text", [TEXT, "骨科", "手腕扭伤怎么办", TEXT + "泌尿科,𠮷,㐂,😀\n"])
def test_gb18030_is_known(tmp_path, text):
    assert detect(tmp_path, text.encode("gb18030")) == "gb18030"


def test_what_looks_like_short_utf8_sequences_is_gb18030(tmp_path):
    text = "胃痛头痛" * 5
    assert text.encode("gb18030").decode("utf-8") == "\u03b8\u0374\u0377\u0374" * 5
    assert detect(tmp_path, (text + "手").encode("gb18030")) == "gb18030"
    # Also where only half of a character at the end tells.
    assert detect(tmp_path, (text + "手").encode("gb18030")[:-1]) == "gb18030"


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
def test_one_bad_byte_anywhere_changes_no_encoding(tmp_path, codec):
    content = TEXT.encode(codec)
    for place_of_fault in range(len(content)):
        # 0xFF is a byte of no character in either encoding.
        damaged = content[:place_of_fault] + b"\xff" + content[place_of_fault + 1 :]
        assert detect(tmp_path, damaged) == codec, place_of_fault


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
def test_a_cut_in_the_middle_of_a_character_changes_no_encoding(tmp_path, codec):
    content = TEXT.encode(codec)
    for end in range(len((HEADER + "骨科").encode(codec)), len(content)):
        assert detect(tmp_path, content[:end]) == codec, end


def test_two_characters_are_enough_to_know_utf8_by_one_of_them(tmp_path):
    whole = "骨科".encode()
    assert detect(tmp_path, whole[:4] + b"\xff" + whole[5:]) == "utf-8"
    assert detect(tmp_path, whole[:-1]) == "utf-8"


@pytest.mark.parametrize("codec", ["utf-8", "gb18030"])
def test_damage_far_behind_the_beginning_is_seen(tmp_path, codec):
    # Characters lie across the 1 MiB blocks in which a file is read.
    content = TEXT.encode(codec) * 20_000
    assert len(content) > 2**20
    assert detect(tmp_path, content) == codec
    assert detect(tmp_path, content + b"\xff\n") == codec


def test_the_first_character_at_the_end_of_a_block_is_not_all_that_counts(tmp_path):
    content = b"x" * (2**20 - 1) + TEXT.encode()[len(HEADER) :]
    assert detect(tmp_path, content + b"\xff") == "utf-8"


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        '{"ask": "问"}'.encode("utf-16-le"),
    ],
    ids=["little", "big", "little, no mark", "big, no mark", "JSON, no mark"],
)
def test_utf16_is_refused_with_a_way_out(tmp_path, content):
    with pytest.raises(UsageError, match=r"x\.csv is UTF-16; convert it first: iconv -f UTF-16"):
        detect(tmp_path, content)


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "gb18030", "gbk", "gb2312", "big5", "shift_jis", "euc_jp"])
def test_encodings_that_keep_ascii_may_be_forced(name):
    check_encoding(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "klingon",
        "中文",
        "latin-1",
        "ascii",
        "cp1252",
        "utf-7",
        "utf-16",
        "hz",
        "iso2022_jp",
        "cp037",
        "rot13",
    ],
)
def test_other_encodings_are_refused_with_a_way_out(name):
    with pytest.raises(UsageError, match="cannot be read; give one that keeps ASCII bytes") as error:
        check_encoding(name)
    assert str(error.value).startswith(f"--encoding {name} ")


def test_a_dataset_built_inside_the_input_and_hidden_folders_are_no_corpus(tmp_path):
    for name in ("records.csv", "out/dataset_dict.json", "out/rejects.jsonl", "out/train/x.csv", ".out.draft-1/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    assert [source.name for source in find_sources(tmp_path)[0]] == ["records.csv"]
