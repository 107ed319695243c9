"""The report of a dataset: what its files held, what became of it, and what it is made of."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from wenzhen.corpus.cleaning import CLEANING_STEPS
from wenzhen.corpus.collecting import Collection, LengthBounds
from wenzhen.corpus.contacts import CONTACTS
from wenzhen.corpus.schema import REPORT_FILE
from wenzhen.corpus.statistics import TextStatistics, coverage

# How the records that name no department, "" among the names, are shown.
NO_NAME = "(none)"
# What each step of cleaning does, as a reader of the report needs it.
CLEANING_WORDS = {
    "control": "control characters removed, line ends made one kind",
    "html": "HTML entities and tags resolved",
    "spaces": "runs of spaces and line breaks shortened",
    "no_question": "question 无 emptied: the title asks",
    "contacts": "contact details masked",
}


def count_records(collection: Collection, splits: Mapping[str, Dataset], bounds: LengthBounds) -> dict[str, Any]:
    """Count what was read, kept, rejected and cleaned, over all and by department."""
    label = next(iter(splits.values())).features["department"]
    by_split = {name: count_labels(split.data.table, label.names) for name, split in splits.items()}
    cleaners = collection.cleaners
    departments = {}
    # Those of which nothing is kept come after the others.
    for name in [*label.names, *sorted(collection.read.keys() - label.names, key=lambda name: (not name, name))]:
        departments[name] = {
            "read": collection.read[name],
            "kept": sum(counts[name] for counts in by_split.values()),
            "rejected": collection.rejected[name].total(),
            "cleaning": dict(cleaners[name].changed) if name in cleaners else {},
            **{split: counts[name] for split, counts in by_split.items()},
        }
    masked = sum((cleaner.masked for cleaner in cleaners.values()), Counter[str]())
    changed = {step: [cleaner.changed.get(step) for cleaner in cleaners.values()] for step in CLEANING_STEPS}
    return {
        "read": collection.read.total(),
        "kept": sum(map(len, splits.values())),
        "rejected": dict(collection.rejected_by_reason().most_common()),
        "splits": {name: len(split) for name, split in splits.items()},
        "departments": {name: departments[name]["kept"] for name in label.names},
        "per_department": departments,
        "cleaning": {step: None if None in counts else sum(counts) for step, counts in changed.items()},
        "contacts": {kind: masked[kind] for kind in CONTACTS},
        "too_long": {
            "question": bounds.question,
            "answer": bounds.answer,
            "records": sum(pc.sum(split.data.table["too_long"]).as_py() for split in splits.values()),
        },
        "files": [asdict(file) for file in collection.files],
    }


def count_labels(table: pa.Table, names: list[str]) -> Counter[str]:
    """Count the records of each department."""
    counts = pc.value_counts(table["department"]).to_pylist()
    return Counter({names[count["values"]]: count["counts"] for count in counts})


def write_report(report: dict[str, Any], texts: TextStatistics, folder: Path) -> None:
    """Write `report.json`, `report.md` and `figures` into a dataset folder."""
    (folder / REPORT_FILE).write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(render_report(report), encoding="utf-8")
    (folder / "figures").mkdir()
    draw_lengths(texts, folder / "figures/lengths.png")
    draw_coverage(texts, folder / "figures/coverage.png")
    draw_leakage(report, folder / "figures/leakage.png")


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Render a Markdown table: the first column text, the others numbers."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *(map(render_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def render_cell(value: Any) -> str:
    """Render a number with its thousands apart, and a text so that it stays one cell."""
    return f"{value:,}" if isinstance(value, int | float) else " ".join(str(value).split()).replace("|", r"\|")


def render_report(report: dict[str, Any]) -> str:
    """Render what `report.json` holds as Markdown."""
    rejected, duplicates, too_long = report["rejected"], report["duplicates"], report["too_long"]
    characters, split = report["characters"], report["split"]
    steps = [(CLEANING_WORDS[step], "off" if count is None else count) for step, count in report["cleaning"].items()]
    kept_together = "records that share a question or an answer (compared without punctuation, white space and case)"
    if split["near_duplicates"]:
        kept_together += f", or nearly one (character 5-grams, Jaccard similarity {split['near_duplicates']} or more)"
    dealing = f"By groups: {kept_together} stay on one side."
    if split["method"] == "random":
        dealing = "At random, every record alone and exact duplicates included, as in the thesis: it leaks."
    shared = f"{duplicates['grouped']:,} records share a question or an answer with an earlier one"
    if duplicates["near"] is not None:
        shared += f", {duplicates['near']:,} more are tied to one by a near-duplicate"
    ignored = ", ".join(map(render_cell, report["ignored_files"])) or "none"
    bounds = f"a question of more than {too_long['question']:,} or an answer of more than {too_long['answer']:,}"
    coverages = "; ".join(f"{count:,} make up {float(share):.2%}" for share, count in characters["coverage"].items())
    unknown = ", ".join(f"{name} {rate:.4%}" for name, rate in characters["unknown_rate"].items())
    lengths = [(name, *values.values()) for name, values in report["lengths"].items()]
    return f"""# Dataset report

{report["read"]:,} records read = {report["kept"]:,} kept + {sum(rejected.values()):,} rejected.
Every rejected record is in `rejects.jsonl` with its file, line, reason and raw text.

{table(("file", "encoding", "records", "kept"), [file.values() for file in report["files"]])}

Ignored, in no department's folder or no readable files: {ignored}.

{table(("rejected for", "records"), list(rejected.items()) or [("nothing", 0)])}

## Cleaning

{table(("step", "records changed"), steps)}

{table(("contacts masked", "number"), report["contacts"].items())}

{too_long["records"]:,} of the records kept have {bounds} characters; the column `too_long` marks them.

## Departments

{department_table(report)}

The last columns count the records that each step of cleaning changed, also those rejected afterwards. Records that
cannot be read and stand in no department's folder count as {NO_NAME}.

## Splits

{table(("split", "records"), report["splits"].items())}

{dealing} Seed {report["seed"]}.

{duplicates["exact"]:,} exact duplicates were found. {shared}.

{leak_table(report)}

The random split has the same shares and deals every record out alone, exact duplicates included, as in the thesis.
Near duplicates, where they were sought, count every record that is tied to one of train by a question, an answer, or a
near-duplicate of them, directly or through others.

## Texts

{table(("characters of a", "mean", "p50", "p95", "p99", "max"), lengths)}

{characters["total"]:,} characters, {characters["different"]:,} different. The most frequent {coverages}.
Share of characters that train does not hold: {unknown}.

![lengths](figures/lengths.png)
![coverage](figures/coverage.png)
![leakage](figures/leakage.png)
"""


def department_table(report: dict[str, Any]) -> str:
    """Render what became of each department's records."""
    keys, steps = ("read", "kept", "rejected", *report["splits"]), report["cleaning"]
    rows = [
        [
            name or NO_NAME,
            *(counts[key] for key in keys),
            *(counts["cleaning"].get(step, "") for step in report["cleaning"]),
        ]
        for name, counts in report["per_department"].items()
    ]
    return table(("department", *keys, *steps), rows)


def leak_table(report: dict[str, Any]) -> str:
    """Render what stands on both sides of this split and of a random one."""
    header = ("records that stand in train too", "this split: validation", "test", "random split: validation", "test")
    rows = [
        [kind.replace("_", " "), *counts.values(), *report["leakage_of_random_split"][kind].values()]
        for kind, counts in report["leakage"].items()
        if counts
    ]
    return table(header, [*rows, ["of", *sizes(report["splits"]), *sizes(report["random_split"])]])


def sizes(splits: dict[str, int]) -> tuple[int, int]:
    """Return how many records could leak."""
    return splits["validation"], splits["test"]


def draw_lengths(texts: TextStatistics, file: Path) -> None:
    """Draw how long titles, questions and answers are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    longest = max(lengths.max() for lengths in texts.lengths.values())
    bins = np.unique(np.geomspace(1, max(longest, 2) + 1, 60).round()).tolist()
    for name, lengths in texts.lengths.items():
        if lengths.any():
            axes.hist(lengths[lengths > 0], bins=bins, histtype="step", label=name)
    axes.set_xscale("log")
    axes.set_xlabel("characters")
    axes.set_ylabel("records")
    axes.legend()
    figure.savefig(file, dpi=150)


def draw_coverage(texts: TextStatistics, file: Path) -> None:
    """Draw how much of the text the most frequent characters make up."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    covered = coverage(np.sum(list(texts.characters.values()), axis=0))
    axes.plot(np.arange(1, len(covered) + 1), covered)
    axes.set_xscale("log")
    axes.set_xlabel("most frequent characters")
    axes.set_ylabel("share of the text")
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=150)


def draw_leakage(report: dict[str, Any], file: Path) -> None:
    """Draw the share of test records that stand in train too, in this split and in a random one."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    kinds = [kind for kind, counts in report["leakage"].items() if counts]
    splits = (("this split", "leakage", "splits"), ("random split", "leakage_of_random_split", "random_split"))
    for offset, (label, leaks, sizes) in enumerate(splits):
        shares = [report[leaks][kind]["test"] / report[sizes]["test"] for kind in kinds]
        bars = axes.bar(np.arange(len(kinds)) + 0.4 * offset, shares, width=0.4, label=label)
        axes.bar_label(bars, fmt="{:.1%}")
    axes.set_xticks(np.arange(len(kinds)) + 0.2, [kind.replace("_", " ") for kind in kinds])
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylabel("share of the test split that stands in train too")
    axes.legend()
    figure.savefig(file, dpi=150)
