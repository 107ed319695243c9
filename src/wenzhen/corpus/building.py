"""From files to a dataset: collect, group, split, report."""

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict
from datasets.fingerprint import Hasher
from datasets.table import InMemoryTable

from wenzhen.corpus.cleaning import CLEANING_STEPS
from wenzhen.corpus.collecting import Collection, LengthBounds
from wenzhen.corpus.grouping import Groups
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.near_duplicates import THRESHOLD, near_duplicates_in_each
from wenzhen.corpus.reading import ReadingOptions
from wenzhen.corpus.report import count_records, write_report
from wenzhen.corpus.schema import DATASET_FILE, DEPARTMENTS, FACTS_FILE, REPORT_FILE, features
from wenzhen.corpus.sources import find_sources
from wenzhen.corpus.splitting import SPLITS, count_leaks, split_groups
from wenzhen.corpus.statistics import measure_texts, summarize_texts
from wenzhen.errors import UsageError
from wenzhen.folders import published_folder

REJECTS_FILE = "rejects.jsonl"
# What a dataset folder holds; the first marks it as one.
CONTENTS = (DATASET_FILE, *SPLITS, REPORT_FILE, "report.md", "figures", REJECTS_FILE, FACTS_FILE)
STEPS = (*CLEANING_STEPS, "duplicates", "near_duplicates")
# More different departments than this are no departments but a wrong column.
MOST_DEPARTMENTS = 100


@dataclass(frozen=True)
class BuildOptions:
    """How to build a dataset.

    Attributes:
        reading: how to read the files.
        bounds: on the lengths of questions and answers.
        skip: steps of [`STEPS`] not to do.
        split: `groups` keeps what belongs together on one side; `random` deals every record out alone, exact
            duplicates included, as the thesis did.
        test_share: part of the records for the test split.
        validation_share: part of what is left for the validation split.
        seed: of the split.
    """

    reading: ReadingOptions = field(default_factory=ReadingOptions)
    bounds: LengthBounds = field(default_factory=LengthBounds)
    skip: frozenset[str] = frozenset()
    split: str = "groups"
    test_share: float = 0.3
    validation_share: float = 0.05
    seed: int = 42


@dataclass(frozen=True)
class Relations:
    """Which rows of a table belong together: for each a number that others share.

    Attributes:
        questions: shared by rows that ask the same, but for punctuation, white space and case.
        answers: shared by rows that answer the same.
        equal: shared by rows that hang together by one or the other, directly or through others.
        near: shared also by those whose questions or answers are near-duplicates; None where these were not sought.
    """

    questions: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    near: npt.NDArray[np.int64] | None


def build_dataset(
    source: Path, output: Path, options: BuildOptions | None = None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Build a DatasetDict folder with its report and its rejects.

    Args:
        source: a file of consultations, or a folder of them.
        output: the folder to make: the splits as `DatasetDict.load_from_disk` reads them, `report.json`, `report.md`,
            `figures`, `rejects.jsonl`, and `facts.json` where the corpus has one.
        options: how to build it.
        overwrite: whether to replace an earlier dataset in `output`.

    Returns:
        The report.

    Raises:
        UsageError: the input is no such corpus, or it is too small to split.
    """
    options = options or BuildOptions()
    skip = options.skip | {"duplicates"} if options.split == "random" else options.skip
    sources, ignored = find_sources(source, options.reading.department)
    facts = find_facts(source)
    with (
        published_folder(output, CONTENTS, overwrite) as folder,
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
    ):
        collection = Collection(Path(scratch), options.reading, options.bounds, skip)
        collection.collect(sources, folder / REJECTS_FILE)
        table = collection.table()
        relations = relate(table, "near_duplicates" not in skip)
        every_row = np.array(collection.rows, dtype=np.int64)
        rows = every_row if "duplicates" in skip else np.arange(table.num_rows)
        groups = relations.equal if relations.near is None else relations.near
        departments = table["department"].to_pylist()
        random_splits = deal(every_row, None, departments, options)
        splits = random_splits if options.split == "random" else deal(rows, groups, departments, options)
        if not all(splits.values()):
            raise UsageError(why_not_split(collection, len(rows), len(np.unique(groups)), splits))
        save_splits(table, {name: rows[records] for name, records in splits.items()}, folder)
        dataset = {name: load_split(folder, name) for name in SPLITS}
        texts = measure_texts(dataset)
        report = {
            **count_records(collection, dataset, options.bounds),
            **summarize_texts(texts),
            "split": {
                "method": options.split,
                "test_share": options.test_share,
                "validation_share": options.validation_share,
                "near_duplicates": None if relations.near is None else THRESHOLD,
            },
            "seed": options.seed,
            "duplicates": count_duplicates(relations, every_row),
            "leakage": measure_leaks(relations, rows, splits),
            "random_split": {name: len(records) for name, records in random_splits.items()},
            "leakage_of_random_split": measure_leaks(relations, every_row, random_splits),
            "ignored_files": ignored,
        }
        write_report(report, texts, folder)
        if facts:
            shutil.copyfile(facts, folder / FACTS_FILE)
    return report


def why_not_split(collection: Collection, records: int, groups: int, splits: dict[str, list[int]]) -> str:
    """Say why a split came out empty."""
    if not records:
        reasons = collection.rejected_by_reason().most_common()
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons) or "no record was read"
        return f"no record can be kept: {counts}"
    sizes = ", ".join(f"{name} {len(members)}" for name, members in splits.items())
    return (
        f"{records:,} records, which hang together in {groups:,} groups by what they ask and answer, are too few to "
        f"split ({sizes}); give more, or change the shares"
    )


def find_facts(source: Path) -> Path | None:
    """Return the file of the phrases that count as facts, None where the corpus lists none.

    Raises:
        UsageError: the file is no list of texts.
    """
    file = source / FACTS_FILE
    if not file.is_file():
        return None
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(facts, list) or not all(isinstance(fact, str) and fact for fact in facts):
        raise UsageError(f"{file} must hold a list of phrases")
    return file


def relate(table: pa.Table, with_near_duplicates: bool) -> Relations:
    """Find the rows that share a question or an answer, or nearly so."""
    codes, texts = zip(*(distinct(table[name]) for name in ("question_key", "answer_key")), strict=True)
    groups = Groups(table.num_rows)
    for column in codes:
        groups.join_equal(column)
    equal = groups.roots()
    if with_near_duplicates:
        for column, near in zip(codes, near_duplicates_in_each(texts), strict=True):
            groups.join_equal(near[column])
    return Relations(codes[0], codes[1], equal, groups.roots() if with_near_duplicates else None)


def distinct(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], pa.LargeStringArray]:
    """Return for every row the number of its text, and the different texts."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def deal(
    rows: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64] | None,
    departments: list[str],
    options: BuildOptions,
) -> dict[str, list[int]]:
    """Deal records out to the splits.

    Args:
        rows: the row of each record.
        groups: of each row, what must stay on one side; None deals every record out alone.
        departments: of each row.
        options: shares and seed.

    Returns:
        The numbers of the records of each split.
    """
    return split_groups(
        list(range(len(rows))) if groups is None else groups[rows].tolist(),
        [departments[row] for row in rows],
        options.test_share,
        options.validation_share,
        options.seed,
    )


def measure_leaks(
    relations: Relations, rows: npt.NDArray[np.int64], splits: dict[str, list[int]]
) -> dict[str, dict[str, int] | None]:
    """Count what stands in train and in another split too."""
    near = relations.near
    return {
        "questions": count_leaks(relations.questions[rows], splits),
        "answers": count_leaks(relations.answers[rows], splits),
        "near_duplicates": None if near is None else count_leaks(near[rows], splits),
    }


def count_duplicates(relations: Relations, every_row: npt.NDArray[np.int64]) -> dict[str, int | None]:
    """Count exact copies, the rows that share a text with an earlier one, and those that join it by nearly a text."""
    rows = len(relations.equal)
    groups = len(np.unique(relations.equal))
    near = None if relations.near is None else groups - len(np.unique(relations.near))
    return {"exact": len(every_row) - rows, "grouped": rows - groups, "near": near}


def save_splits(table: pa.Table, rows: dict[str, npt.NDArray[np.int64]], folder: Path) -> None:
    """Write the rows of each split as a DatasetDict.

    Raises:
        UsageError: there are too many departments to be such.
    """
    found = pc.unique(table["department"]).to_pylist()
    names = [*DEPARTMENTS, *sorted(set(found) - set(DEPARTMENTS))]
    if len(names) > MOST_DEPARTMENTS:
        raise UsageError(
            f"the records name {len(found):,} departments (as {found[0]}, {found[1]}), which makes more than "
            f"{MOST_DEPARTMENTS}; is it the right column? (--columns department=COLUMN)"
        )
    columns = features(names)
    labels = pc.index_in(table["department"], pa.array(names)).cast(pa.int64())
    table = table.set_column(table.column_names.index("department"), "department", labels).select(list(columns))
    # The same records have the same fingerprint, by which what is made of them is found again.
    fingerprint = Hasher.hash([names, table["id"].to_pylist(), table["too_long"].to_pylist()])
    dataset = Dataset(InMemoryTable(table.cast(columns.arrow_schema)), fingerprint=fingerprint)
    DatasetDict({name: dataset.select(records) for name, records in rows.items()}).save_to_disk(folder)
