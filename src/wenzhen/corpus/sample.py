"""A sample corpus of our own, in the original's form: facts of a small medical table in many wordings.

Every answer states the facts that the table holds for its condition and aspect, so an evaluation can count them.
The texts are made for demonstration; they are general knowledge and no advice to anybody.
"""

import csv
import io
import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from wenzhen.corpus.cleaning import normalized
from wenzhen.corpus.schema import DATA_FOLDER, DEPARTMENTS, FACTS_FILE, NO_QUESTION, SOURCE_FILES, SOURCE_SIZES
from wenzhen.folders import published_folder

MANIFEST = "corpus.json"
NOTICE_FILE = "README.txt"
# What a sample corpus holds; the first marks it as one.
CONTENTS = (MANIFEST, FACTS_FILE, NOTICE_FILE, DATA_FOLDER)
NOTICE = """本文件夹是演示用的合成语料：问答由模板和一张常识表拼成，没有真实患者，不能作为医疗建议。
A synthetic corpus for demonstration, composed from templates and a table of general knowledge.
No real patients. No medical advice.
"""
# Ages in years of the adults who ask in a department; elsewhere the phrasing's own range holds.
AGES = {"妇产科": (20, 50), "男科": (18, 65)}
SEXES = {"妇产科": "女", "男科": "男"}
# How often a patient asks without telling anything about himself.
BARE_SHARE = 0.15
# The original corpus' faults and how often a record of it has them.
FAULT_SHARES = {
    "quoted_commas": 0.124,
    "line_breaks": 0.052,
    "no_question": 0.107,
    "duplicates": 0.05,
    "empty_answers": 0.002,
    "html": 0.002,
    "contacts": 0.002,
    "unclosed_quotes": 0.0005,
    "missing_fields": 0.0005,
    "undecodable_bytes": 0.0005,
}

# A mobile number that is nobody's but the network's own.
CONTACT = "有疑问请打电话：13800138000。"

Row = list[str]  # department (the original's sub-department), title, ask, answer


@dataclass(frozen=True)
class Condition:
    """One illness of the table: its names, who can have it, and its facts by aspect."""

    department: str
    sub_department: str
    name: str
    also: tuple[str, ...]
    sex: str | None
    facts: dict[str, tuple[str, ...]]


@cache
def phrasings() -> dict[str, Any]:
    """Return the wordings of questions and answers."""
    text = resources.files("wenzhen.corpus").joinpath("phrasings.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


@cache
def conditions() -> tuple[Condition, ...]:
    """Return the table, department by department."""
    aspects = tuple(phrasings()["aspects"])
    folder = resources.files("wenzhen.corpus").joinpath("knowledge")
    table = []
    for department in DEPARTMENTS:
        for entry in yaml.safe_load(folder.joinpath(f"{department}.yaml").read_text(encoding="utf-8")):
            table.append(
                Condition(
                    department=department,
                    sub_department=entry["sub_department"],
                    name=entry["name"],
                    also=tuple(entry["also"]),
                    sex=entry.get("sex", SEXES.get(department)),
                    facts={aspect: tuple(entry[aspect]) for aspect in aspects},
                )
            )
    return tuple(table)


def facts() -> list[str]:
    """Return every fact of the table once, sorted."""
    return sorted({fact for condition in conditions() for stated in condition.facts.values() for fact in stated})


def patient_words(condition: Condition, rng: random.Random) -> str:
    """Say who asks, in keeping with the condition."""
    if condition.department == "儿科":
        if condition.name.startswith("新生儿"):
            child_age = f"出生{rng.randint(3, 27)}天"
        elif condition.name.startswith("婴"):
            child_age = f"{rng.randint(2, 11)}个月"
        else:
            child_age = f"{rng.randint(1, 11)}岁{rng.choice(('', '半'))}"
        return str(rng.choice(phrasings()["children"])).format(age=child_age)
    low, high = AGES.get(condition.department, (18, 75))
    fitting = [
        patient
        for patient in phrasings()["patients"]
        if patient["sex"] in ("any", condition.sex or patient["sex"])
        and max(patient["from"], low) <= min(patient["to"], high)
    ]
    patient = rng.choice(fitting)
    age = rng.randint(max(patient["from"], low), min(patient["to"], high))
    return str(patient["text"]).format(age=age)


def compose(condition: Condition, aspect: str, rng: random.Random) -> Row:
    """Word one consultation about an aspect of a condition; the answer states all its facts, in any order."""
    words = phrasings()
    wording = words["aspects"][aspect]
    name = rng.choice((condition.name, condition.name, *condition.also))
    title = rng.choice(wording["titles"]).format(condition=name)
    if rng.random() < BARE_SHARE:
        story = f"{title}？"
    else:
        situation = rng.choice(words["situations"]).format(
            since=rng.choice(words["since"]), condition=name, sign=rng.choice(condition.facts["signs"])
        )
        story = patient_words(condition, rng) + situation + rng.choice(wording["asks"]).format(condition=name)
    question = rng.choice(words["greetings"]) + story + rng.choice(words["thanks"])
    stated = rng.sample(condition.facts[aspect], len(condition.facts[aspect]))
    answer = "".join(
        (
            rng.choice(words["openings"]),
            rng.choice(wording["answers"]).format(*stated, condition=condition.name),
            rng.choice(words["closings"]),
        )
    )
    return [condition.sub_department, title, question, answer]


def compose_department(department: str, pairs: int, rng: random.Random) -> Iterator[Row]:
    """Yield `pairs` consultations in which no question and no answer comes twice, every aspect equally often."""
    cells = [(c, aspect) for c in conditions() if c.department == department for aspect in c.facts]
    rng.shuffle(cells)
    seen: set[int] = set()
    for condition, aspect in itertools.islice(itertools.cycle(cells), pairs):
        while True:
            row = compose(condition, aspect, rng)
            keys = {hash(normalized(row[2])), hash(normalized(row[3]))}
            if seen.isdisjoint(keys):
                break
        seen |= keys
        yield row


def department_sizes(pairs: int) -> dict[str, int]:
    """Share `pairs` out in the original's proportions, the largest remainders rounded up."""
    total = sum(SOURCE_SIZES.values())
    sizes = {department: pairs * size // total for department, size in SOURCE_SIZES.items()}
    by_remainder = sorted(SOURCE_SIZES, key=lambda department: -(pairs * SOURCE_SIZES[department] % total))
    for department in by_remainder[: pairs - sum(sizes.values())]:
        sizes[department] += 1
    return sizes


def plant_faults(rows: list[Row], rng: random.Random) -> dict[str, list[int]]:
    """Choose the rows that have the original corpus' faults, at most one each; change those in place that are texts.

    Returns:
        The rows that have each fault of [`FAULT_SHARES`]; [`csv_line`] makes the faults of the file's form.
    """
    # A handful of rows has no room for every fault and a sound row to duplicate.
    fewest = 1 if len(rows) > len(FAULT_SHARES) else 0
    counts = {fault: max(round(len(rows) * share), fewest) for fault, share in FAULT_SHARES.items()}
    order = iter(rng.sample(range(len(rows)), len(rows)))
    planted = {fault: list(itertools.islice(order, count)) for fault, count in counts.items()}
    sound = list(order)
    for index in planted["quoted_commas"]:
        rows[index][3] = re.sub("[，。！：]", ",", rows[index][3], count=1)
    for index in planted["line_breaks"]:
        rows[index][3] += "\n祝好"
    for index in planted["no_question"]:
        rows[index][2] = NO_QUESTION
    for index in planted["duplicates"]:
        rows[index] = list(rows[rng.choice(sound)])
    for index in planted["empty_answers"]:
        rows[index][3] = ""
    for index in planted["html"]:
        rows[index][3] += "<br/>祝好&hellip;"
    for index in planted["contacts"]:
        rows[index][3] += CONTACT
    return planted


def csv_line(row: Row, fault: str | None) -> bytes:
    """Return a row as a line of the file, with a fault of its form where it has one."""
    fields = row[:-1] if fault == "missing_fields" else row
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(fields)
    line = text.getvalue().encode("gb18030")
    if fault == "unclosed_quotes":
        answer = row[-1].encode("gb18030")
        line = line.removesuffix(answer + b"\n") + b'"' + answer + b"\n"
    if fault == "undecodable_bytes":
        line = line.removesuffix(b"\n") + b"\xff\n"
    return line


def write_sample_corpus(output: Path, pairs: int, seed: int, faults_wanted: bool, overwrite: bool) -> dict[str, Any]:
    """Write six CSVs in the original's folders, names, columns and encoding (GB18030), and a manifest.

    Args:
        output: the folder to make.
        pairs: records over all departments; the original's proportions hold.
        seed: the same seed gives the same bytes.
        faults_wanted: whether to plant the original's faults.
        overwrite: whether to replace an earlier corpus in `output`.

    Returns:
        The manifest: `pairs`, `seed`, `departments` and `faults` with their counts.

    Raises:
        UsageError: `output` holds something else.
    """
    sizes = department_sizes(pairs)
    planted = dict.fromkeys(FAULT_SHARES, 0)
    with (
        published_folder(output, CONTENTS, overwrite) as folder,
        tqdm(total=pairs, unit=" pairs", disable=None) as progress,
    ):
        for department, size in sizes.items():
            rng = random.Random(f"{seed}/{department}")
            rows = []
            for row in compose_department(department, size, rng):
                rows.append(row)
                progress.update()
            rng.shuffle(rows)
            faults = plant_faults(rows, rng) if faults_wanted else {}
            for fault, indices in faults.items():
                planted[fault] += len(indices)
            fault_of = {index: fault for fault, indices in faults.items() for index in indices}
            path = folder / DATA_FOLDER / SOURCE_FILES[department]
            path.parent.mkdir(parents=True)
            with path.open("wb") as file:
                file.write(csv_line(["department", "title", "ask", "answer"], None))
                file.writelines(csv_line(row, fault_of.get(index)) for index, row in enumerate(rows))
        manifest = {"pairs": pairs, "seed": seed, "departments": sizes, "faults": planted}
        for name, content in ((MANIFEST, manifest), (FACTS_FILE, facts())):
            (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        (folder / NOTICE_FILE).write_text(NOTICE, encoding="utf-8")
    return manifest
