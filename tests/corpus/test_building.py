import csv
import json
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, load_from_disk

from wenzhen.corpus import building
from wenzhen.corpus.building import build_dataset
from wenzhen.corpus.cleaning import normalized
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES, question_text
from wenzhen.errors import UsageError

HEADER = ["department", "title", "ask", "answer"]


def plain_rows(department, count):
    return [["科", f"{department}题{n}", f"{department}第{n}问", f"{department}第{n}答"] for n in range(count)]


def write_corpus(folder, rows_of):
    for department in DEPARTMENTS:
        path = folder / SOURCE_FILES[department]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="gb18030", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows_of(department)])
    return folder


def flawed_rows(department):
    """40 good rows, of them 4 share a question or an answer with an earlier one; then 6 bad ones."""
    rows = plain_rows(department, 36)
    rows += [
        ["科", "另题", f" {department}第0问？", f"{department}别答一"],
        ["科", "另题二", f"{department}别问二", f"{department}第1，答。"],
        # Joins the groups of rows 2 and 3.
        ["科", "另题三", f"{department}第2问", f"{department}第3答"],
        ["科", f"{department}第4问", "无", f"{department}别答三"],
    ]
    return [
        *rows,
        rows[0],
        [" 科 ", *rows[1][1:]],
        ["科", "题", "问", ""],
        ["科", "", "无", "答"],
        ["科", "题", "问"],
        ["科", "题", "问", "答", "多"],
    ]


def build(source, output, **changes):
    settings = {"seed": 42, "test_share": 0.3, "validation_share": 0.1, "overwrite": False}
    return build_dataset(source, output, **{**settings, **changes})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    source = write_corpus(folder / "source", flawed_rows)
    (source / "facts.json").write_text('["多喝水"]', encoding="utf-8")
    report = build(source, folder / "dataset")
    return source, folder / "dataset", report


def rows_of(folder):
    return {name: list(split) for name, split in load_from_disk(str(folder)).items()}


def test_every_record_is_kept_or_rejected(built):
    _, _, report = built
    assert report["read"] == 6 * 46
    assert report["kept"] == 6 * 40
    assert report["rejected"] == {
        "duplicate": 12,
        "wrong number of fields": 12,
        "empty answer": 6,
        "empty question and title": 6,
    }


def test_the_report_equals_what_lies_in_the_folder(built):
    _, folder, report = built
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == report
    rows = rows_of(folder)
    assert report["splits"] == {name: len(split) for name, split in rows.items()}
    assert sum(report["splits"].values()) == report["kept"]
    assert report["departments"] == dict.fromkeys(DEPARTMENTS, 40)
    # Of the 4 late rows one joins two groups, so 40 records of a department make 35 groups.
    assert report["duplicates"] == {"exact": 12, "grouped": 6 * 5}
    assert report["leakage"] == {kind: {"validation": 0, "test": 0} for kind in ("questions", "answers")}


def test_the_kept_records_are_the_good_rows_of_the_source(built):
    _, folder, _ = built
    kept = Counter(
        (row["department"], row["sub_department"], row["title"], row["question"], row["answer"])
        for split in rows_of(folder).values()
        for row in split
    )
    expected = Counter(
        (number, sub, title, "" if question == "无" else question.strip(), answer)
        for number, department in enumerate(DEPARTMENTS)
        for sub, title, question, answer in flawed_rows(department)[:40]
    )
    assert kept == expected


def test_columns_and_departments_of_every_split(built):
    for split in load_from_disk(str(built[1])).values():
        assert split.column_names == ["id", "department", "sub_department", "title", "question", "answer"]
        assert split.features["department"] == ClassLabel(names=["男科", "内科", "妇产科", "肿瘤科", "儿科", "外科"])


def test_nothing_stands_in_two_splits(built):
    rows = rows_of(built[1])
    for key in (
        lambda row: normalized(question_text(row["title"], row["question"])),
        lambda row: normalized(row["answer"]),
    ):
        sides = [{key(row) for row in split} for split in rows.values()]
        assert sum(map(len, sides)) == len(set.union(*sides))


def test_texts_without_letters_do_not_count_as_leaks(tmp_path):
    def rows(department):
        return [["科", "", "？" * n, f"{department}{n}答"] for n in range(1, 21)] if department == "男科" else []

    report = build(write_corpus(tmp_path / "source", rows), tmp_path / "dataset")
    assert report["leakage"]["questions"] == {"validation": 0, "test": 0}


def test_rejects_name_file_line_reason_and_raw_text(built):
    source, folder, report = built
    entries = [json.loads(line) for line in (folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(entry["reason"] for entry in entries) == report["rejected"]
    for department, file in SOURCE_FILES.items():
        lines = (source / file).read_bytes().decode("gb18030").splitlines(keepends=True)
        here = [entry for entry in entries if entry["file"] == file]
        assert [entry["line"] for entry in here] == [42, 43, 44, 45, 46, 47], department
        assert [entry["raw"] for entry in here] == lines[41:]
        assert all(set(entry) == {"file", "line", "reason", "raw"} for entry in here)


def test_ids_are_unique_and_the_same_in_every_build(built, tmp_path):
    source, folder, _ = built
    build(source, tmp_path / "again", seed=1)
    ids, again = (
        [row["id"] for split in rows_of(path).values() for row in split] for path in (folder, tmp_path / "again")
    )
    assert len(set(ids)) == len(ids) == 240
    assert set(ids) == set(again)


def test_the_seed_decides_the_split(built, tmp_path):
    source, folder, _ = built
    build(source, tmp_path / "same")
    build(source, tmp_path / "other", seed=1)
    assert rows_of(tmp_path / "same") == rows_of(folder)
    assert {row["id"] for row in rows_of(tmp_path / "other")["test"]} != {row["id"] for row in rows_of(folder)["test"]}


def test_three_tenths_of_every_department_go_to_test(tmp_path):
    sizes = dict(zip(DEPARTMENTS, (20, 40, 60, 10, 30, 50), strict=True))
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, sizes[department]))
    build(source, tmp_path / "dataset")
    counts = Counter(DEPARTMENTS[row["department"]] for row in rows_of(tmp_path / "dataset")["test"])
    assert counts == {department: size * 3 // 10 for department, size in sizes.items()}


def test_facts_are_copied_where_the_corpus_has_some(built, tmp_path):
    source, folder, _ = built
    assert (folder / "facts.json").read_bytes() == (source / "facts.json").read_bytes()
    build(write_corpus(tmp_path / "source", lambda name: plain_rows(name, 10)), tmp_path / "dataset")
    assert not (tmp_path / "dataset" / "facts.json").exists()


def test_the_page_shows_the_counts(built):
    page = (built[1] / "report.md").read_text(encoding="utf-8")
    assert "276 records read = 240 kept + 36 rejected" in page
    assert "| duplicate | 12 |" in page and "| 妇产科 | 40 |" in page


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_earlier_dataset_is_replaced_only_on_demand(built, tmp_path):
    source = built[0]
    build(source, tmp_path / "dataset")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="--overwrite"):
        build(source, tmp_path / "dataset", seed=1)
    assert contents(tmp_path) == before
    build(source, tmp_path / "dataset", seed=1, overwrite=True)
    assert json.loads((tmp_path / "dataset" / "report.json").read_text(encoding="utf-8"))["seed"] == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_never_replaced(built, tmp_path, overwrite):
    output = tmp_path / "output"
    output.mkdir()
    (output / "notes.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match="holds other files"):
        build(built[0], output, overwrite=overwrite)
    assert contents(tmp_path) == {(output / "notes.txt").relative_to(tmp_path): b"keep"}


def test_a_failure_late_in_the_build_changes_nothing(built, tmp_path, monkeypatch):
    build(built[0], tmp_path / "dataset")
    before = contents(tmp_path)

    def fail(report):
        raise RuntimeError("disk full")

    monkeypatch.setattr(building, "render_report", fail)
    with pytest.raises(RuntimeError):
        build(built[0], tmp_path / "dataset", overwrite=True)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_records_are_refused_and_leave_nothing(tmp_path, count):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, count))
    with pytest.raises(UsageError, match=f"{6 * count} records are too few"):
        build(source, tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_department_without_a_file_is_refused(tmp_path):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, 5))
    (source / SOURCE_FILES["儿科"]).unlink()
    with pytest.raises(UsageError, match="儿科"):
        build(source, tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_load_split_gives_the_rows_of_one_split(built, split):
    assert list(load_split(built[1], split)) == rows_of(built[1])[split]


def test_load_split_refuses_an_unknown_split(built):
    with pytest.raises(UsageError, match="no split `dev`; there are: train, validation, test"):
        load_split(built[1], "dev")


def test_load_split_refuses_a_folder_without_dataset(tmp_path):
    with pytest.raises(UsageError, match=r"build_dataset\.py"):
        load_split(tmp_path, "train")


def test_load_split_names_the_columns_that_a_foreign_dataset_lacks(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}', encoding="utf-8")
    Dataset.from_dict({"question": ["问"], "answer": ["答"]}).save_to_disk(tmp_path / "train")
    with pytest.raises(UsageError, match="lacks the columns id, department, sub_department, title"):
        load_split(tmp_path, "train")
