import csv
import json
import random
from collections import Counter
from itertools import combinations, product

import pytest
from datasets import ClassLabel, Dataset, load_from_disk

from wenzhen.corpus import building, report
from wenzhen.corpus.building import STEPS, BuildOptions, build_dataset
from wenzhen.corpus.cleaning import normalized
from wenzhen.corpus.collecting import LengthBounds
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.reading import ReadingOptions
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES, question_text
from wenzhen.errors import UsageError

HEADER = ["department", "title", "ask", "answer"]
COLUMNS = ["id", "department", "sub_department", "title", "question", "answer", "too_long"]
HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 900)]


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """Leave the figures out, which take most of the time of a small build."""
    for name in ("draw_lengths", "draw_coverage", "draw_leakage"):
        monkeypatch.setattr(report, name, lambda *arguments: None)


def plain_rows(department, count):
    return [["科", f"{department}题{n}", f"{department}第{n}问", f"{department}第{n}答"] for n in range(count)]


def write_corpus(folder, rows_of):
    for department in DEPARTMENTS:
        path = folder / SOURCE_FILES[department]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="gb18030", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows_of(department)])
    return folder


def write_json_lines(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


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


def build(source, output, overwrite=False, **changes):
    return build_dataset(source, output, BuildOptions(**{"validation_share": 0.1, **changes}), overwrite=overwrite)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    source = write_corpus(folder / "source", flawed_rows)
    (source / "facts.json").write_text('["多喝水"]', encoding="utf-8")
    (source / "notes.csv").write_text("nothing of ours", encoding="utf-8")
    report = build(source, folder / "dataset")
    return source, folder / "dataset", report


def rows_of(folder):
    return {name: list(split) for name, split in load_from_disk(str(folder)).items()}


def all_rows(folder):
    return [row for split in rows_of(folder).values() for row in split]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def question_key(row):
    return normalized(question_text(row["title"], row["question"]))


def answer_key(row):
    return normalized(row["answer"])


# --- what is kept


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


def test_the_kept_records_are_the_good_rows_of_the_source(built):
    kept = Counter(
        (row["department"], row["sub_department"], row["title"], row["question"], row["answer"])
        for row in all_rows(built[1])
    )
    expected = Counter(
        (number, sub, title, "" if question == "无" else question.strip(), answer)
        for number, department in enumerate(DEPARTMENTS)
        for sub, title, question, answer in flawed_rows(department)[:40]
    )
    assert kept == expected


def test_columns_and_departments_of_every_split(built):
    for split in load_from_disk(str(built[1])).values():
        assert split.column_names == COLUMNS
        assert split.features["department"] == ClassLabel(names=["男科", "内科", "妇产科", "肿瘤科", "儿科", "外科"])


def test_rejects_name_file_line_reason_and_raw_text(built):
    source, folder, report = built
    entries = [json.loads(line) for line in (folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(entry["reason"] for entry in entries) == report["rejected"]
    for department, file in SOURCE_FILES.items():
        lines = (source / file).read_bytes().decode("gb18030").splitlines(keepends=True)
        here = [entry for entry in entries if entry["file"] == file]
        assert [entry["line"] for entry in here] == [42, 43, 44, 45, 46, 47], department
        assert [entry["raw"] for entry in here] == lines[41:]
        assert {entry["encoding"] for entry in here} == {"gb18030"}


def test_a_file_of_no_department_is_named_where_others_have_one(built):
    assert built[2]["ignored_files"] == ["notes.csv"]


def test_ids_are_unique_and_the_same_in_every_build(built, tmp_path):
    source, folder, _ = built
    build(source, tmp_path / "again", seed=1)
    ids, again = ([row["id"] for row in all_rows(path)] for path in (folder, tmp_path / "again"))
    assert len(set(ids)) == len(ids) == 240
    assert set(ids) == set(again)


def dirty_rows(count=40):
    rows = [["眼科", f"题{n}", f"第{n}个问题：怕光两天", f"第{n}个回答：先休息"] for n in range(count)]
    rows[0][3] += "<br>&hellip;"
    rows[1][3] += "\u3000\u3000谢谢"
    rows[2][2] = "无"
    rows[3][3] += "，致电13800138000"
    rows[4][3] += "\u200b呀"
    return [*rows, rows[7], rows[8]]


@pytest.mark.parametrize("step", STEPS)
def test_each_step_can_be_left_out(step, tmp_path):
    source = write_json_lines(tmp_path / "source.jsonl", dirty_rows())
    full, without = (
        build(source, tmp_path / name, skip=frozenset(skip)) for name, skip in (("full", ()), ("without", {step}))
    )
    done = {"control": 1, "html": 1, "spaces": 1, "no_question": 1, "contacts": 1}
    assert full["cleaning"] == done
    assert without["cleaning"] == (done | {step: None} if step in done else done)
    texts = {row["title"]: (row["question"], row["answer"]) for row in all_rows(tmp_path / "without")}
    cleaned = {row["title"]: (row["question"], row["answer"]) for row in all_rows(tmp_path / "full")}
    changed = {title for title in texts if texts[title] != cleaned[title]}
    dirty = {"html": "题0", "spaces": "题1", "no_question": "题2", "contacts": "题3", "control": "题4"}
    assert changed == ({dirty[step]} if step in dirty else set())
    assert (without["kept"], without["rejected"]) == ((42, {}) if step == "duplicates" else (40, {"duplicate": 2}))
    assert without["duplicates"]["exact"] == 2
    assert (without["duplicates"]["near"] is None) == (step == "near_duplicates")


def test_a_question_of_no_words_is_that_of_the_title_also_where_it_stays(tmp_path):
    rows = [["内科", f"题目{n}", "无", f"回答{n}"] for n in range(20)]
    report = build(write_json_lines(tmp_path / "a.jsonl", rows), tmp_path / "dataset", skip=frozenset({"no_question"}))
    assert report["kept"] == 20
    assert report["duplicates"]["grouped"] == 0


# --- lengths


def long_rows():
    rows = plain_rows("内科", 40)
    rows[0][2] = "问" * 30
    rows[1][2] = "问" * 31
    rows[2][3] = "答" * 50
    rows[3][3] = "答" * 51
    # The title asks.
    rows[4][1:3] = ["题" * 31, "无"]
    # Only what asks counts.
    rows[5][1] = "题" * 31
    rows[6][2] = "问" * 25 + "&nbsp;" * 5 + "问" * 5
    return [["内科", *row[1:]] for row in rows]


def test_long_records_are_marked_or_dropped(tmp_path):
    source = write_json_lines(tmp_path / "source.jsonl", long_rows())
    marked = build(source, tmp_path / "marked", bounds=LengthBounds(30, 50))
    dropped = build(source, tmp_path / "dropped", bounds=LengthBounds(30, 50, drop=True))
    beyond = {"问" * 31, "题" * 31, "问" * 25 + " " + "问" * 5}

    def is_beyond(row):
        return (row["question"] or row["title"]) in beyond or row["answer"] == "答" * 51

    rows = all_rows(tmp_path / "marked")
    assert all(row["too_long"] == is_beyond(row) for row in rows)
    assert (marked["kept"], marked["rejected"]) == (40, {})
    assert marked["too_long"] == {"question": 30, "answer": 50, "records": 4}
    assert (dropped["kept"], dropped["rejected"]) == (36, {"too long": 4})
    assert dropped["too_long"] == {"question": 30, "answer": 50, "records": 0}
    kept = all_rows(tmp_path / "dropped")
    assert {row["id"] for row in kept} == {row["id"] for row in rows if not row["too_long"]}
    assert not any(row["too_long"] for row in kept)


def test_the_bounds_are_wide_unless_others_are_given(tmp_path):
    rows = [["内科", "", "问" * (511 + n), f"{n}" + "答" * (1021 + n)] for n in range(4)] + [
        ["内科", "", f"第{n}问", f"第{n}答"] for n in range(20)
    ]
    report = build(write_json_lines(tmp_path / "source.jsonl", rows), tmp_path / "dataset")
    # Questions of 511 to 514, answers of 1022 to 1025 characters: the last two are beyond 512, the last beyond 1024.
    assert report["too_long"] == {"question": 512, "answer": 1024, "records": 2}


# --- departments


def test_departments_of_ones_own_stand_behind_the_six(tmp_path):
    rows = [
        [name, f"题{n}", f"{name}第{n}问", f"{name}第{n}答"] for name in ("眼科", "内科", "中医科") for n in range(20)
    ]
    report = build(write_json_lines(tmp_path / "source.jsonl", rows), tmp_path / "dataset")
    names = [*DEPARTMENTS, "中医科", "眼科"]
    for split in load_from_disk(str(tmp_path / "dataset")).values():
        assert split.features["department"].names == names
        assert all(row["answer"].startswith(names[row["department"]]) for row in split)
    assert report["departments"] == dict.fromkeys(DEPARTMENTS, 0) | {"中医科": 20, "内科": 20, "眼科": 20}


def test_one_department_for_all(tmp_path):
    source = tmp_path / "source.jsonl"
    lines = [f'{{"question": "第{number}问", "answer": "第{number}答"}}' for number in range(30)]
    source.write_text("\n".join(lines), encoding="utf-8")
    report = build(source, tmp_path / "dataset", reading=ReadingOptions(department="皮肤科"))
    assert report["departments"]["皮肤科"] == 30


def test_more_than_a_hundred_departments_are_a_wrong_column(tmp_path):
    rows = [[f"第{n}科", "题", f"第{n}个问题", f"第{n}个回答"] for n in range(94) for _ in "ab"]
    rows += [["内科", "题", f"内科第{n}问", f"内科第{n}答"] for n in range(40)]
    source = write_json_lines(tmp_path / "source.jsonl", rows)
    assert len(build(source, tmp_path / "dataset")["departments"]) == 100
    write_json_lines(source, [*rows, ["第九十五科", "题", "再问", "再答"]])
    with pytest.raises(UsageError, match=r"departments.*is it the right column\? \(--columns department=COLUMN\)"):
        build(source, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_a_department_too_small_to_share_stays_in_train(tmp_path):
    rows = [["内科", "", f"第{n}问", f"第{n}答"] for n in range(40)] + [["眼科", "", "怕光", "戴墨镜"]]
    report = build(write_json_lines(tmp_path / "source.jsonl", rows), tmp_path / "dataset")
    assert {name: report["per_department"]["眼科"][name] for name in ("train", "validation", "test")} == {
        "train": 1,
        "validation": 0,
        "test": 0,
    }


# --- splits


def test_three_tenths_of_every_department_go_to_test(tmp_path):
    sizes = dict(zip(DEPARTMENTS, (20, 40, 60, 10, 30, 50), strict=True))
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, sizes[department]))
    build(source, tmp_path / "dataset")
    counts = Counter(DEPARTMENTS[row["department"]] for row in rows_of(tmp_path / "dataset")["test"])
    assert counts == {department: size * 3 // 10 for department, size in sizes.items()}


def test_shares_are_those_asked_for(tmp_path):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, 40))
    report = build(source, tmp_path / "dataset", test_share=0.2, validation_share=0.25)
    assert report["splits"] == {"train": 6 * 24, "validation": 6 * 8, "test": 6 * 8}
    assert (report["split"]["test_share"], report["split"]["validation_share"]) == (0.2, 0.25)
    # As in the thesis, and 5 % of train for validation, unless others are asked for.
    report = build_dataset(source, tmp_path / "default")
    assert report["splits"] == {"train": 6 * 27, "validation": 6 * 1, "test": 6 * 12}


def test_the_seed_decides_the_split(built, tmp_path):
    source, folder, _ = built
    build(source, tmp_path / "same")
    build(source, tmp_path / "other", seed=1)
    assert rows_of(tmp_path / "same") == rows_of(folder)
    assert {row["id"] for row in rows_of(tmp_path / "other")["test"]} != {row["id"] for row in rows_of(folder)["test"]}


@pytest.mark.parametrize("split", ["groups", "random"])
def test_the_same_input_gives_the_same_bytes(built, tmp_path, monkeypatch, split):
    monkeypatch.undo()
    for name in ("first", "second"):
        build(built[0], tmp_path / name, split=split)
    first, second = (contents(tmp_path / name) for name in ("first", "second"))
    assert first == second
    fingerprints = [load_split(tmp_path / name, "train")._fingerprint for name in ("first", "second")]
    assert fingerprints[0] == fingerprints[1]


def test_nothing_stands_in_two_splits(built):
    rows = rows_of(built[1])
    for key in (question_key, answer_key):
        sides = [{key(row) for row in split} for split in rows.values()]
        assert sum(map(len, sides)) == len(set.union(*sides))


def test_texts_without_letters_do_not_count_as_leaks(tmp_path):
    marks = map("".join, product("？！…。", repeat=3))
    rows = [["内科", "", mark, f"{number}答"] for number, mark in enumerate(marks)]
    report = build(write_json_lines(tmp_path / "source.jsonl", rows), tmp_path / "dataset")
    assert report["kept"] == 64
    assert report["leakage"]["questions"] == {"validation": 0, "test": 0}


def invented(rng, length=150):
    return "".join(rng.choices(HAN, k=length))


def edited(text, rng):
    """Change one character: of 146 grams 141 stay, so that the similarity is 141 / 151 = 0.93."""
    place = rng.randrange(5, len(text) - 5)
    return text[:place] + rng.choice("㐀㐁㐂") + text[place + 1 :]


def similar_rows():
    """60 records; 30 of nearly the question of one of them, 20 of nearly the answer; 10 exact copies."""
    rng = random.Random(11)
    rows = [[rng.choice(DEPARTMENTS), "题", invented(rng), invented(rng)] for _ in range(60)]
    rows += [[rng.choice(DEPARTMENTS), "题", edited(rng.choice(rows[:60])[2], rng), invented(rng)] for _ in range(30)]
    rows += [[rng.choice(DEPARTMENTS), "题", invented(rng), edited(rng.choice(rows[:60])[3], rng)] for _ in range(20)]
    rows += rng.sample(rows, 10)
    rng.shuffle(rows)
    return rows


def grams(text):
    return {text[start : start + 5] for start in range(len(text) - 4)}


def crossing_pairs(folder):
    """Count the pairs of records in different splits whose questions or answers are alike."""
    rows = [
        (name, grams(question_key(row)), grams(answer_key(row)))
        for name, split in rows_of(folder).items()
        for row in split
    ]
    return sum(
        one[0] != other[0] and any(len(a & b) >= 0.8 * len(a | b) for a, b in zip(one[1:], other[1:], strict=True))
        for one, other in combinations(rows, 2)
    )


@pytest.fixture(scope="module")
def similar(tmp_path_factory):
    """Return a corpus with near-duplicates and its datasets: split by groups, at random, by what is equal only."""
    folder = tmp_path_factory.mktemp("similar")
    source = write_json_lines(folder / "source.jsonl", similar_rows())
    skip = frozenset({"near_duplicates"})
    return folder, {
        "groups": build(source, folder / "groups", seed=5),
        "random": build(source, folder / "random", seed=5, split="random"),
        "equal": build(source, folder / "equal", seed=5, skip=skip),
    }


def test_near_duplicates_stay_on_one_side(similar):
    folder, reports = similar
    assert crossing_pairs(folder / "groups") == 0
    # Every edited record hangs on the one it was made from.
    assert reports["groups"]["duplicates"] == {"exact": 10, "grouped": 0, "near": 50}
    assert reports["groups"]["leakage"] == {
        kind: {"validation": 0, "test": 0} for kind in ("questions", "answers", "near_duplicates")
    }
    assert reports["groups"]["split"]["near_duplicates"] == 0.8


def test_without_the_step_they_do_not(similar):
    folder, reports = similar
    assert crossing_pairs(folder / "equal") > 0
    assert reports["equal"]["duplicates"] == {"exact": 10, "grouped": 0, "near": None}
    assert reports["equal"]["leakage"]["near_duplicates"] is None
    assert reports["equal"]["split"]["near_duplicates"] is None


def test_a_random_split_keeps_exact_duplicates_and_leaks(similar):
    folder, reports = similar
    report = reports["random"]
    assert (report["kept"], report["rejected"], report["duplicates"]["exact"]) == (120, {}, 10)
    assert report["split"]["method"] == "random"
    rows = rows_of(folder / "random")
    assert len({row["id"] for split in rows.values() for row in split}) == 110
    for kind, key in (("questions", question_key), ("answers", answer_key)):
        trained = {key(row) for row in rows["train"]}
        expected = {name: sum(key(row) in trained for row in rows[name]) for name in ("validation", "test")}
        assert report["leakage"][kind] == expected
        assert expected["test"] > 0
    assert crossing_pairs(folder / "random") > 0


@pytest.mark.parametrize("other", ["groups", "equal"])
def test_the_leak_of_the_random_split_is_that_of_a_build_with_it(similar, other):
    _, reports = similar
    for kind in ("questions", "answers"):
        assert reports[other]["leakage_of_random_split"][kind] == reports["random"]["leakage"][kind]
    for kind in ("questions", "answers", "near_duplicates"):
        assert reports["groups"]["leakage_of_random_split"][kind] == reports["random"]["leakage"][kind]
        assert reports["random"]["leakage_of_random_split"][kind] == reports["random"]["leakage"][kind]


def test_the_random_split_leaks_near_duplicates_more_than_equal_texts(similar):
    leaks = similar[1]["groups"]["leakage_of_random_split"]
    assert leaks["near_duplicates"]["test"] > max(leaks["questions"]["test"], leaks["answers"]["test"])


# --- the folder


@pytest.mark.parametrize(("count", "why"), [(0, "no record was read"), (1, "6 records, .* 6 groups .* too few")])
def test_too_few_records_are_refused_and_leave_nothing(tmp_path, count, why):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, count))
    with pytest.raises(UsageError, match=why):
        build(source, tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_department_without_a_file_is_refused(tmp_path):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, 5))
    (source / SOURCE_FILES["儿科"]).unlink()
    with pytest.raises(UsageError, match="儿科"):
        build(source, tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()


def test_facts_are_copied_where_the_corpus_has_some(built, tmp_path):
    source, folder, _ = built
    assert (folder / "facts.json").read_bytes() == (source / "facts.json").read_bytes()
    build(write_corpus(tmp_path / "source", lambda name: plain_rows(name, 10)), tmp_path / "dataset")
    assert not (tmp_path / "dataset" / "facts.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'["a",', "is not JSON"),
        ("多喝水".encode("gb18030"), "is not JSON"),
        (b"", "is not JSON"),
        (b'{"a": 1}', "must hold a list of phrases"),
        (b'["a", 1]', "must hold a list of phrases"),
        (b'["a", ""]', "must hold a list of phrases"),
        (b'"a"', "must hold a list of phrases"),
    ],
)
def test_facts_that_are_none_are_refused_before_anything_is_built(tmp_path, content, message):
    source = write_corpus(tmp_path / "source", lambda department: plain_rows(department, 10))
    (source / "facts.json").write_bytes(content)
    with pytest.raises(UsageError, match=f"facts.json.*{message}"):
        build(source, tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()


def test_an_earlier_dataset_is_replaced_only_on_demand(built, tmp_path):
    source = built[0]
    build(source, tmp_path / "dataset")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="--overwrite"):
        build(source, tmp_path / "dataset", seed=1)
    assert contents(tmp_path) == before
    build(source, tmp_path / "dataset", seed=1, overwrite=True)
    assert json.loads((tmp_path / "dataset" / "report.json").read_text(encoding="utf-8"))["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_never_replaced(built, tmp_path, overwrite):
    output = tmp_path / "output"
    output.mkdir()
    (output / "notes.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match="holds other files"):
        build(built[0], output, overwrite=overwrite)
    assert contents(tmp_path) == {(output / "notes.txt").relative_to(tmp_path): b"keep"}


@pytest.mark.parametrize("step", ["relate", "save_splits", "write_report"])
def test_a_failure_at_any_time_changes_nothing(built, tmp_path, monkeypatch, step):
    build(built[0], tmp_path / "dataset")
    before = contents(tmp_path)

    def fail(*arguments):
        raise RuntimeError("disk full")

    monkeypatch.setattr(building, step, fail)
    with pytest.raises(RuntimeError):
        build(built[0], tmp_path / "dataset", overwrite=True)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


# --- loading


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_load_split_gives_the_rows_of_one_split(built, split):
    assert list(load_split(built[1], split)) == rows_of(built[1])[split]


def test_load_split_takes_a_dataset_without_the_mark_of_long_records(built, tmp_path):
    old = load_from_disk(str(built[1])).remove_columns("too_long")
    old.save_to_disk(tmp_path / "old")
    loaded = load_split(tmp_path / "old", "test")
    assert loaded.column_names == COLUMNS[:-1]
    assert list(loaded["id"]) == [row["id"] for row in rows_of(built[1])["test"]]


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
