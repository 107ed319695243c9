"""Every number of the report, counted again from the corpus, the dataset folder and the rejected records."""

import csv
import json
import random
import re
from collections import Counter
from itertools import combinations

import pytest
from datasets import load_from_disk

from wenzhen.corpus.building import BuildOptions, build_dataset
from wenzhen.corpus.collecting import LengthBounds
from wenzhen.corpus.report import CLEANING_WORDS, render_cell, table

COLUMNS = ("department", "title", "question", "answer")
HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 500)]
SIX = ["男科", "内科", "妇产科", "肿瘤科", "儿科", "外科"]
OWN = "眼|耳\n科"
SPLITS = ("train", "validation", "test")
BOUNDS = LengthBounds(question=70, answer=80)

# What makes a text dirty, by the step that cleans it.
DIRT = {
    "html": lambda text: text + "<br>&hellip;",
    "control": lambda text: text + "\u200b",
    "spaces": lambda text: text[:5] + "\u3000\u3000" + text[5:],
    "contacts": lambda text: text + "，致电13800138000或QQ12345678",
}


def invented(rng, longest):
    return "".join(rng.choices(HAN, k=rng.randrange(40, longest)))


def make_records(rng):
    """Return records with the step that cleans each, and one of a department of which nothing can be kept."""
    records = [
        ((rng.choice(SIX[1:4]), invented(rng, 50), invented(rng, 75), invented(rng, 90)), None) for _ in range(80)
    ]
    records += [((OWN, "", invented(rng, 60), invented(rng, 70)), None) for _ in range(20)]
    for number, step in zip(range(0, 60, 5), [*DIRT] * 3, strict=True):
        department, title, question, answer = records[number][0]
        records[number] = (department, title, question, DIRT[step](answer)), step
    for number in (1, 6, 11):
        records[number] = (*records[number][0][:2], "无", records[number][0][3]), "no_question"
    # The question of another but for its punctuation; nearly the answer of another; exact copies; nothing to keep.
    records += [((SIX[1], "", records[number][0][2] + "？", invented(rng, 70)), None) for number in (2, 3, 4, 4)]
    records += [((SIX[2], "", invented(rng, 70), records[number][0][3] + "终"), None) for number in (7, 8, 9)]
    records += [records[number] for number in (0, 5, 12, 12)]
    records += [(("骨科", "题", "问", ""), None), ((SIX[1], "", "无", "答"), "no_question")]
    return records


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return a folder of two files, and by department the records read and what cleaning changes."""
    folder = tmp_path_factory.mktemp("report") / "source"
    folder.mkdir()
    rng = random.Random(2)
    records = make_records(rng)
    rng.shuffle(records)
    with (folder / "甲|乙.csv").open("w", encoding="gb18030", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *(record for record, _ in records[:50]), ["内科", "少一栏", "问"]])
    lines = [json.dumps(dict(zip(COLUMNS, record, strict=True)), ensure_ascii=False) for record, _ in records[50:]]
    (folder / "丙.jsonl").write_text("\n".join([*lines, "{", '{"question": 1}']), encoding="utf-8")
    read = Counter(record[0] for record, _ in records) + Counter({"": 3})
    return folder, read, Counter((record[0], step) for record, step in records if step)


@pytest.fixture(scope="module")
def built(corpus):
    folder = corpus[0].parent / "dataset"
    report = build_dataset(corpus[0], folder, BuildOptions(bounds=BOUNDS, validation_share=0.1, seed=3))
    return folder, report


@pytest.fixture(scope="module")
def rows(built):
    """Return the rows of the dataset with their splits, and with names of departments."""
    found = []
    for name, split in load_from_disk(str(built[0])).items():
        names = split.features["department"].names
        found += [{**row, "department": names[row["department"]], "split": name} for row in split]
    return found


@pytest.fixture(scope="module")
def rejects(built):
    lines = (built[0] / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def asks(row):
    return row["question"] or row["title"]


def key(text):
    return "".join(re.findall(r"[^\W_]", text)).casefold()


def grams(text):
    return {text[start : start + 5] for start in range(max(1, len(text) - 4))}


def alike(one, other):
    return len(grams(one) & grams(other)) >= 0.8 * len(grams(one) | grams(other))


def groups_by(rows, related):
    """Group rows that are related, directly or through others: every pair is looked at until nothing moves."""
    groups = list(range(len(rows)))
    pairs = [pair for pair in combinations(range(len(rows)), 2) if related(rows[pair[0]], rows[pair[1]])]
    while moving := [(one, other) for one, other in pairs if groups[one] != groups[other]]:
        for one, other in moving:
            groups[one] = groups[other] = min(groups[one], groups[other])
    return groups


def test_the_file_holds_the_report(built):
    folder, report = built
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == report


def test_keys_that_programs_may_rely_on(built):
    assert set(built[1]) == {
        *(
            "read",
            "kept",
            "rejected",
            "splits",
            "departments",
            "per_department",
            "split",
            "seed",
            "cleaning",
            "contacts",
        ),
        *(
            "too_long",
            "duplicates",
            "leakage",
            "random_split",
            "leakage_of_random_split",
            "lengths",
            "characters",
            "files",
        ),
        "ignored_files",
    }


def test_records_read_kept_and_rejected(built, corpus, rows, rejects):
    report = built[1]
    assert report["read"] == corpus[1].total() == len(rows) + len(rejects)
    assert report["kept"] == len(rows)
    assert report["rejected"] == Counter(entry["reason"] for entry in rejects)
    assert report["rejected"] == {
        "duplicate": 4,
        "empty answer": 1,
        "empty question and title": 1,
        "wrong number of fields": 1,
        "malformed JSON": 1,
        "field is not text": 1,
    }
    assert list(report["rejected"].values()) == sorted(report["rejected"].values(), reverse=True)
    assert report["splits"] == {name: sum(row["split"] == name for row in rows) for name in SPLITS}
    assert report["ignored_files"] == []


def test_departments(built, corpus, rows):
    report, (_, read, changed) = built[1], corpus
    kept = Counter(row["department"] for row in rows)
    assert report["departments"] == {name: kept[name] for name in [*SIX, OWN]}
    # Also those of which nothing is kept, and last the records that name none.
    assert list(report["per_department"]) == [*SIX, OWN, "骨科", ""]
    for name, counts in report["per_department"].items():
        assert (counts["read"], counts["kept"]) == (read[name], kept[name]), name
        assert counts["rejected"] == read[name] - kept[name]
        for split in SPLITS:
            assert counts[split] == sum(row["department"] == name and row["split"] == split for row in rows)
        expected = {} if not read[name] or name == "" else {step: changed[name, step] for step in CLEANING_WORDS}
        assert counts["cleaning"] == expected


def test_cleaning_and_contacts(built, corpus, rows):
    report = built[1]
    steps = Counter(step for (_, step), count in corpus[2].items() for _ in range(count))
    assert report["cleaning"] == {step: steps[step] for step in CLEANING_WORDS}
    assert all(steps[step] >= 3 for step in CLEANING_WORDS)
    # Each of those records holds one number of both kinds, and a copy of one is among the rejected.
    assert report["contacts"] == {
        "email": 0,
        "link": 0,
        "wechat": 0,
        "qq": steps["contacts"],
        "telephone": steps["contacts"],
    }
    assert sum(row["answer"].count("[电话]") for row in rows) == 3


def test_files(built, corpus, rejects):
    by_file = Counter(entry["file"] for entry in rejects)
    # 50 records and 3 of no department lie in one and the rest in the other.
    rest = corpus[1].total() - 51
    assert built[1]["files"] == [
        {"file": "丙.jsonl", "encoding": "utf-8", "records": rest, "kept": rest - by_file["丙.jsonl"]},
        {"file": "甲|乙.csv", "encoding": "gb18030", "records": 51, "kept": 51 - by_file["甲|乙.csv"]},
    ]


def test_long_records(built, rows):
    long = [len(asks(row)) > 70 or len(row["answer"]) > 80 for row in rows]
    assert [row["too_long"] for row in rows] == long
    assert built[1]["too_long"] == {"question": 70, "answer": 80, "records": sum(long)}
    assert 0 < sum(long) < len(rows)


def test_duplicates_and_leaks(built, rows, rejects):
    report = built[1]

    def equal(one, other):
        return key(asks(one)) == key(asks(other)) or key(one["answer"]) == key(other["answer"])

    def near(one, other):
        return alike(key(asks(one)), key(asks(other))) or alike(key(one["answer"]), key(other["answer"]))

    equals, nears = groups_by(rows, equal), groups_by(rows, near)
    assert report["duplicates"] == {
        "exact": sum(entry["reason"] == "duplicate" for entry in rejects),
        "grouped": len(rows) - len(set(equals)),
        "near": len(set(equals)) - len(set(nears)),
    }
    assert report["duplicates"] == {"exact": 4, "grouped": 4, "near": 3}
    for kind, keys in (
        ("questions", [key(asks(row)) for row in rows]),
        ("answers", [key(row["answer"]) for row in rows]),
        ("near_duplicates", nears),
    ):
        trained = {keys[number] for number, row in enumerate(rows) if row["split"] == "train"}
        for split in ("validation", "test"):
            leaked = sum(keys[number] in trained for number, row in enumerate(rows) if row["split"] == split)
            assert report["leakage"][kind][split] == leaked == 0


def test_lengths(built, rows):
    for column, figures in built[1]["lengths"].items():
        lengths = sorted(len(row[column]) for row in rows)
        ranks = {percent: -(-percent * len(lengths) // 100) for percent in (50, 95, 99)}
        assert figures == {
            "mean": round(sum(lengths) / len(lengths), 2),
            **{f"p{percent}": lengths[rank - 1] for percent, rank in ranks.items()},
            "max": lengths[-1],
        }
    assert list(built[1]["lengths"]) == ["title", "question", "answer"]


def test_characters(built, rows):
    counts = {name: Counter() for name in SPLITS}
    for row in rows:
        counts[row["split"]].update(row["title"] + row["question"] + row["answer"])
    together = sum(counts.values(), Counter())
    figures = built[1]["characters"]
    assert (figures["total"], figures["different"]) == (together.total(), len(together))
    for share, number in figures["coverage"].items():
        frequent = [count for _, count in together.most_common(number)]
        assert sum(frequent) >= float(share) * together.total() > sum(frequent[:-1])
    for name, rate in figures["unknown_rate"].items():
        unknown = sum(count for character, count in counts[name].items() if character not in counts["train"])
        assert rate == unknown / counts[name].total()
    assert list(figures["unknown_rate"]) == ["validation", "test"]


def test_how_it_was_split(built):
    report = built[1]
    assert report["split"] == {
        "method": "groups",
        "test_share": 0.3,
        "validation_share": 0.1,
        "near_duplicates": 0.8,
    }
    assert report["seed"] == 3


# --- the page


def tables_of(page):
    """Return the tables of a page as a reader of Markdown takes them: rows of cells."""
    blocks = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    return [
        [
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
        ]
        for block in blocks
    ]


@pytest.fixture(scope="module")
def tables(built):
    """Return the tables of the page by their first headings."""
    page = (built[0] / "report.md").read_text(encoding="utf-8")
    return {rows[0][0]: rows for rows in tables_of(page)}


def test_every_table_has_as_many_cells_in_each_row(tables):
    assert list(tables) == [
        *("file", "rejected for", "step", "contacts masked", "department", "split", "records that stand in train too"),
        "characters of a",
    ]
    for rows in tables.values():
        assert {len(row) for row in rows} == {len(rows[0])}
        assert rows[1] == ["---", *["---:"] * (len(rows[0]) - 1)]
        assert len(rows) > 2


def test_the_tables_hold_the_numbers_of_the_report(built, tables):
    report = built[1]

    def body(heading):
        return {row[0]: row[1:] for row in tables[heading][2:]}

    def text(values):
        return [f"{value:,}" for value in values]

    assert body("file") == {
        file["file"]: [file["encoding"], *text([file["records"], file["kept"]])] for file in report["files"]
    }
    assert body("rejected for") == {reason: text([count]) for reason, count in report["rejected"].items()}
    assert body("step") == {CLEANING_WORDS[step]: text([count]) for step, count in report["cleaning"].items()}
    assert body("contacts masked") == {kind: text([count]) for kind, count in report["contacts"].items()}
    assert body("split") == {name: text([count]) for name, count in report["splits"].items()}
    assert body("characters of a") == {name: text(figures.values()) for name, figures in report["lengths"].items()}
    assert body("records that stand in train too") == {
        kind.replace("_", " "): text(
            report[leaks][kind][split]
            for leaks in ("leakage", "leakage_of_random_split")
            for split in ("validation", "test")
        )
        for kind in ("questions", "answers", "near_duplicates")
    } | {"of": text(report[sizes][split] for sizes in ("splits", "random_split") for split in ("validation", "test"))}
    departments = body("department")
    assert list(departments) == [*SIX, "眼|耳 科", "骨科", "(none)"]
    for name, cells in zip(report["per_department"], departments.values(), strict=True):
        counts = report["per_department"][name]
        assert cells == [
            *text(counts[column] for column in ("read", "kept", "rejected", *SPLITS)),
            *(text(counts["cleaning"].values()) or [""] * 5),
        ]


def test_the_page_says_how_many_records_there_are(built):
    folder, report = built
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert f"{report['read']} records read = {report['kept']} kept + 9 rejected" in page
    assert f"{report['too_long']['records']} of the records kept have a question of more than 70" in page
    assert "(character 5-grams, Jaccard similarity 0.8 or more)" in page
    assert "None" not in page and "{" not in page


def test_the_page_of_a_build_that_leaves_steps_out(corpus, tmp_path):
    skip = frozenset({"html", "contacts", "duplicates", "near_duplicates"})
    report = build_dataset(corpus[0], tmp_path / "dataset", BuildOptions(skip=skip))
    page = (tmp_path / "dataset" / "report.md").read_text(encoding="utf-8")
    tables = {rows[0][0]: rows for rows in tables_of(page)}
    assert [CLEANING_WORDS["html"], "off"] in tables["step"] and [CLEANING_WORDS["contacts"], "off"] in tables["step"]
    assert (report["cleaning"]["html"], report["cleaning"]["contacts"]) == (None, None)
    assert all(len({len(row) for row in rows}) == 1 for rows in tables.values())
    assert [row[0] for row in tables["records that stand in train too"][2:]] == ["questions", "answers", "of"]
    assert "Jaccard" not in page and "None" not in page
    random_page = tmp_path / "random"
    build_dataset(corpus[0], random_page, BuildOptions(split="random"))
    assert "it leaks" in (random_page / "report.md").read_text(encoding="utf-8")


def test_figures_are_pictures_and_the_page_shows_each(built):
    page = (built[0] / "report.md").read_text(encoding="utf-8")
    files = sorted((built[0] / "figures").iterdir())
    assert [file.name for file in files] == ["coverage.png", "leakage.png", "lengths.png"]
    for file in files:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")
        # 8 x 5 inches of 150 dots.
        assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (1200, 750)
        assert f"(figures/{file.name})" in page


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1234567, "1,234,567"),
        (0, "0"),
        (1234.5, "1,234.5"),
        ("a|b", r"a\|b"),
        ("甲\n乙", "甲 乙"),
        ("", ""),
        ("off", "off"),
    ],
)
def test_cells(value, expected):
    assert render_cell(value) == expected


def test_a_table_by_hand():
    assert table(("name", "number"), [("甲|乙", 1000), ("丙", "off")]) == (
        "| name | number |\n| --- | ---: |\n| 甲\\|乙 | 1,000 |\n| 丙 | off |"
    )
