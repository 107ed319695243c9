import csv
import io
import json
import random
import re
from collections import Counter

import pytest

from wenzhen.corpus import sample
from wenzhen.corpus.building import BuildOptions, build_dataset
from wenzhen.corpus.cleaning import normalized
from wenzhen.corpus.sample import conditions, department_sizes, facts, write_sample_corpus
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES
from wenzhen.errors import UsageError

SIZES = {"男科": 94_596, "内科": 220_606, "妇产科": 183_751, "肿瘤科": 75_553, "儿科": 101_602, "外科": 115_991}
TABLE = {condition.name: condition for condition in conditions()}
ASPECTS = ("signs", "causes", "care", "medicine", "food", "checks", "hospital")


def write(output, pairs=400, seed=3, faults=False, overwrite=False):
    return write_sample_corpus(output, pairs, seed, faults, overwrite)


# A quote that opens the last field of a line, where the next line is a record of its own or there is none.
UNCLOSED_QUOTE = re.compile(r'^((?:[^",\n]*,){3})"([^"\n]*\n)(?=[^",\n]*,|\Z)', re.MULTILINE)


def read_text(folder, department):
    # No character of GB18030 holds this byte.
    return (folder / "Data_数据" / SOURCE_FILES[department]).read_bytes().replace(b"\xff", b"").decode("gb18030")


def read_rows(folder):
    """Return the rows of each file, with the faults of the files' form mended."""
    rows = {}
    for department in SOURCE_FILES:
        text = UNCLOSED_QUOTE.sub(r"\1\2", read_text(folder, department))
        rows[department] = list(csv.reader(io.StringIO(text, newline="")))
    return rows


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "corpus"
    return folder, write(folder, pairs=1500)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty") / "corpus"
    return folder, write(folder, pairs=1500, faults=True)


@pytest.mark.parametrize("department", DEPARTMENTS)
def test_every_department_has_twenty_conditions(department):
    assert sum(condition.department == department for condition in conditions()) >= 20


def test_no_two_conditions_share_a_name():
    names = Counter(name for condition in conditions() for name in (condition.name, *condition.also))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("name", TABLE)
def test_facts_of_a_condition(name):
    condition = TABLE[name]
    assert tuple(condition.facts) == ASPECTS
    stated = [fact for aspect in ASPECTS for fact in condition.facts[aspect]]
    assert all(condition.facts.values()) and all(stated)
    # A fact within another would count as stated wherever the other is.
    inside = [(a, b) for i, a in enumerate(stated) for j, b in enumerate(stated) if i != j and a in b]
    assert inside == []


def test_every_text_of_the_table_can_be_written_in_gb18030():
    for condition in conditions():
        texts = [condition.name, *condition.also, condition.sub_department, *sum(condition.facts.values(), ())]
        assert all(text.encode("gb18030").decode("gb18030") == text for text in texts)


def test_facts_lists_every_fact_once():
    expected = {fact for condition in TABLE.values() for stated in condition.facts.values() for fact in stated}
    assert facts() == sorted(expected)


def test_the_seed_decides_every_byte(tmp_path):
    for name, seed in (("first", 3), ("second", 3), ("other", 4)):
        write(tmp_path / name, seed=seed, faults=True)
    first, second, other = (contents(tmp_path / name) for name in ("first", "second", "other"))
    assert first == second
    assert [path for path in first if path.endswith(".csv") and first[path] == other[path]] == []


@pytest.mark.parametrize("pairs", [1, 2, 6, 7, 100, 9_999, 10_000, 792_098, 792_099])
def test_sizes_add_up_and_keep_the_originals_proportions(pairs):
    sizes = department_sizes(pairs)
    assert list(sizes) == list(SIZES)
    assert sum(sizes.values()) == pairs
    assert all(abs(sizes[name] - pairs * SIZES[name] / 792_099) < 1 for name in SIZES)


def test_sizes_of_the_original_and_of_a_hundred_by_hand():
    assert department_sizes(792_099) == SIZES
    # Shares in percent: 11.94, 27.85, 23.20, 9.54, 12.83, 14.64; the four largest remainders are rounded up.
    assert list(department_sizes(100).values()) == [12, 28, 23, 9, 13, 15]
    assert department_sizes(1) == {**dict.fromkeys(SIZES, 0), "内科": 1}


def test_files_lie_and_look_as_the_originals(sound):
    folder, manifest = sound
    names = {f"Data_数据/{file}" for file in SOURCE_FILES.values()}
    assert set(contents(folder)) == names | {"corpus.json", "facts.json", "README.txt"}
    rows = read_rows(folder)
    assert [lines[0] for lines in rows.values()] == [["department", "title", "ask", "answer"]] * 6
    assert {name: len(lines) - 1 for name, lines in rows.items()} == department_sizes(1500) == manifest["departments"]
    assert {len(row) for lines in rows.values() for row in lines} == {4}
    for name in names:
        with pytest.raises(UnicodeDecodeError):
            (folder / name).read_text(encoding="utf-8")


def test_manifest_and_facts_lie_beside_the_files(sound):
    folder, manifest = sound
    assert json.loads((folder / "corpus.json").read_text(encoding="utf-8")) == manifest
    assert (manifest["pairs"], manifest["seed"], set(manifest["faults"].values())) == (1500, 3, {0})
    assert json.loads((folder / "facts.json").read_text(encoding="utf-8")) == facts()


def test_no_question_and_no_answer_comes_twice(sound):
    rows = [row for lines in read_rows(sound[0]).values() for row in lines[1:]]
    assert len({normalized(row[2]) for row in rows}) == len(rows)
    assert len({normalized(row[3]) for row in rows}) == len(rows)


def test_every_answer_states_all_facts_of_an_aspect_of_the_condition_asked_about(sound):
    for department, lines in read_rows(sound[0]).items():
        here = [condition for condition in TABLE.values() if condition.department == department]
        for sub_department, title, question, answer in lines[1:]:
            # Names within longer names are no matter: the one that fits everything is among those named.
            assert any(
                condition.sub_department == sub_department
                and any(name in title and name in question for name in (condition.name, *condition.also))
                and condition.name in answer
                and any(all(fact in answer for fact in stated) for stated in condition.facts.values())
                for condition in here
            ), (title, question, answer)


def test_no_text_keeps_a_placeholder(sound):
    texts = [text for lines in read_rows(sound[0]).values() for row in lines for text in row]
    assert [text for text in texts if "{" in text or "}" in text or not text.strip()] == []


def test_every_aspect_of_every_condition_is_asked_about_equally_often():
    cells = sum(len(condition.facts) for condition in TABLE.values() if condition.department == "儿科")
    rows = list(sample.compose_department("儿科", 2 * cells, random.Random(0)))
    assert len(rows) == 2 * cells
    for condition in (condition for condition in TABLE.values() if condition.department == "儿科"):
        answers = [row[3] for row in rows if row[0] == condition.sub_department and condition.name in row[3]]
        for aspect, stated in condition.facts.items():
            assert sum(all(fact in answer for fact in stated) for answer in answers) == 2, (condition.name, aspect)


def test_only_women_ask_in_the_womens_department(sound):
    questions = [row[2] for row in read_rows(sound[0])["妇产科"][1:]]
    assert not [question for question in questions if "我爸" in question or "男性" in question or "丈夫" in question]


def count_faults(folder):
    rows = [row for lines in read_rows(folder).values() for row in lines[1:]]
    whole = [row for row in rows if len(row) == 4]
    return {
        "quoted_commas": sum("," in row[3] for row in whole),
        "line_breaks": sum("\n" in row[3] for row in whole),
        "no_question": sum(row[2] == "无" for row in rows),
        "duplicates": sum(len(lines) - len(set(map(tuple, lines))) for lines in read_rows(folder).values()),
        "empty_answers": sum(row[3] == "" for row in whole),
        "html": sum("<br/>" in row[3] and "&hellip;" in row[3] for row in whole),
        "contacts": sum("13800138000" in row[3] for row in whole),
        "unclosed_quotes": sum(len(UNCLOSED_QUOTE.findall(read_text(folder, name))) for name in SOURCE_FILES),
        "missing_fields": len(rows) - len(whole),
        "undecodable_bytes": sum(
            (folder / "Data_数据" / file).read_bytes().count(b"\xff") for file in SOURCE_FILES.values()
        ),
    }


def test_faults_are_planted_in_the_numbers_of_the_manifest(faulty):
    folder, manifest = faulty
    assert count_faults(folder) == manifest["faults"]
    assert all(manifest["faults"].values())
    assert {name: len(lines) - 1 for name, lines in read_rows(folder).items()} == department_sizes(1500)


def test_commas_and_line_breaks_stand_in_quotes_in_the_file(faulty):
    folder, manifest = faulty
    text = UNCLOSED_QUOTE.sub(r"\1\2", "".join(read_text(folder, department) for department in SOURCE_FILES))
    # No text of ours holds a quote, so the quotes are those of the two faults.
    quoted = text.split('"')[1::2]
    assert sum("," in field for field in quoted) == manifest["faults"]["quoted_commas"]
    assert sum("\n" in field for field in quoted) == manifest["faults"]["line_breaks"]


def test_a_sound_corpus_has_no_faults(sound):
    assert set(count_faults(sound[0]).values()) == {0}


# So few that a department has fewer rows than there are kinds of faults.
@pytest.mark.parametrize("pairs", [1, 30, 40, 60])
def test_faults_of_a_tiny_corpus_are_counted_rightly(tmp_path, pairs):
    manifest = write(tmp_path / "corpus", pairs=pairs, faults=True)
    assert count_faults(tmp_path / "corpus") == manifest["faults"]


def test_the_build_finds_the_planted_faults(faulty, tmp_path):
    folder, manifest = faulty
    report = build_dataset(folder, tmp_path / "dataset", BuildOptions(seed=0))
    faults = manifest["faults"]
    assert report["rejected"] == {
        "duplicate": faults["duplicates"],
        "empty answer": faults["empty_answers"],
        "unclosed quote": faults["unclosed_quotes"],
        "wrong number of fields": faults["missing_fields"],
        "undecodable bytes": faults["undecodable_bytes"],
    }
    assert report["duplicates"]["exact"] == faults["duplicates"]
    assert report["cleaning"] == {
        "control": 0,
        "html": faults["html"],
        "spaces": 0,
        "no_question": faults["no_question"],
        "contacts": faults["contacts"],
    }
    assert +Counter(report["contacts"]) == Counter(telephone=faults["contacts"])
    assert report["read"] == 1500
    assert (tmp_path / "dataset" / "facts.json").read_bytes() == (folder / "facts.json").read_bytes()


def test_the_build_keeps_all_of_a_sound_corpus(sound, tmp_path):
    report = build_dataset(sound[0], tmp_path / "dataset", BuildOptions(seed=0))
    assert (report["kept"], report["rejected"]) == (1500, {})
    assert (report["duplicates"]["exact"], report["duplicates"]["grouped"]) == (0, 0)
    # Our own texts are clean: they hold nothing that cleaning would take for dirt or for somebody's number.
    assert set(report["cleaning"].values()) == set(report["contacts"].values()) == {0}
    assert report["too_long"]["records"] == 0
    assert report["departments"] == department_sizes(1500)


def test_an_earlier_corpus_is_replaced_only_on_demand(tmp_path):
    write(tmp_path / "corpus", pairs=20)
    with pytest.raises(UsageError, match="--overwrite"):
        write(tmp_path / "corpus", pairs=30)
    assert write(tmp_path / "corpus", pairs=30, overwrite=True)["pairs"] == 30
    assert sum(len(lines) - 1 for lines in read_rows(tmp_path / "corpus").values()) == 30


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail():
        raise RuntimeError("broken table")

    monkeypatch.setattr(sample, "facts", fail)
    with pytest.raises(RuntimeError):
        write(tmp_path / "corpus", pairs=20)
    assert list(tmp_path.iterdir()) == []
