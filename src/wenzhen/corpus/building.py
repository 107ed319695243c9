"""From CSVs to a dataset: read, clean, drop duplicates, split, report."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from tqdm import tqdm

from wenzhen.corpus.cleaning import normalized
from wenzhen.corpus.reading import find_files, read_csv
from wenzhen.corpus.report import render_report
from wenzhen.corpus.schema import DEPARTMENTS, FACTS_FILE, Consultation, features
from wenzhen.corpus.splitting import SPLITS, count_leaks, group_records, split_groups
from wenzhen.errors import UsageError
from wenzhen.folders import published_folder

REJECTS_FILE = "rejects.jsonl"
# What a dataset folder holds; the first marks it as one.
CONTENTS = ("dataset_dict.json", *SPLITS, "report.json", "report.md", REJECTS_FILE, FACTS_FILE)
DUPLICATE = "duplicate"


def build_dataset(
    source: Path, output: Path, *, seed: int, test_share: float, validation_share: float, overwrite: bool
) -> dict[str, Any]:
    """Build a DatasetDict folder with its report and its rejects from the six department CSVs.

    Args:
        source: folder of the CSVs.
        output: the folder to make: the splits as `DatasetDict.load_from_disk` reads them, `report.json`, `report.md`,
            `rejects.jsonl`, and `facts.json` where the corpus has one.
        seed: of the split.
        test_share: part of the records for the test split.
        validation_share: part of what is left for the validation split.
        overwrite: whether to replace an earlier dataset in `output`.

    Returns:
        The report.

    Raises:
        UsageError: the input is not such a corpus, or it is too small to split.
    """
    files, ignored = find_files(source)
    facts = find_facts(source)
    with published_folder(output, CONTENTS, overwrite) as folder:
        kept, rejected = read_records(files, source, folder / REJECTS_FILE)
        # A text without any letter is compared as it is.
        questions = [normalized(consultation.question_text) or consultation.question_text for consultation in kept]
        answers = [normalized(consultation.answer) or consultation.answer for consultation in kept]
        groups = group_records(
            # The prefixes keep a question from matching an answer.
            (f"q{question}", f"a{answer}")
            for question, answer in zip(questions, answers, strict=True)
        )
        departments = [consultation.department for consultation in kept]
        splits = split_groups(groups, departments, test_share, validation_share, seed)
        if not all(splits.values()):
            sizes = ", ".join(f"{name} {len(records)}" for name, records in splits.items())
            raise UsageError(f"{len(kept)} records are too few to split ({sizes}); give more, or change the shares")

        report = {
            "read": len(kept) + sum(rejected.values()),
            "kept": len(kept),
            "rejected": dict(rejected.most_common()),
            "splits": {name: len(records) for name, records in splits.items()},
            "departments": {name: departments.count(name) for name in DEPARTMENTS},
            "duplicates": {"exact": rejected[DUPLICATE], "grouped": len(groups) - len(set(groups))},
            "leakage": {"questions": count_leaks(questions, splits), "answers": count_leaks(answers, splits)},
            "ignored_files": ignored,
            "seed": seed,
        }
        DatasetDict(
            {name: to_dataset([kept[record] for record in records]) for name, records in splits.items()}
        ).save_to_disk(folder)
        (folder / "report.json").write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        (folder / "report.md").write_text(render_report(report), encoding="utf-8")
        if facts:
            shutil.copyfile(facts, folder / FACTS_FILE)
    return report


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
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(facts, list) or not all(isinstance(fact, str) and fact for fact in facts):
        raise UsageError(f"{file} must hold a list of phrases")
    return file


def read_records(
    files: dict[str, list[Path]], source: Path, rejects_file: Path
) -> tuple[list[Consultation], Counter[str]]:
    """Read all files; write what is rejected to `rejects_file` as it comes.

    Returns:
        The consultations kept, no two alike, and how many records were rejected for each reason.
    """
    kept: dict[str, Consultation] = {}
    rejected = Counter[str]()
    with rejects_file.open("w", encoding="utf-8") as rejects, tqdm(unit=" records", disable=None) as progress:
        for department, paths in files.items():
            progress.set_description(department)
            for record in (record for path in paths for record in read_csv(path, department)):
                progress.update()
                consultation, reason = record.consultation, record.reason
                if consultation and consultation.id in kept:
                    reason = DUPLICATE
                if consultation and not reason:
                    kept[consultation.id] = consultation
                    continue
                entry = {
                    "file": str(Path(record.file).relative_to(source)),
                    "line": record.line,
                    "reason": reason,
                    "raw": record.raw,
                }
                rejects.write(json.dumps(entry, ensure_ascii=False) + "\n")
                rejected[str(reason)] += 1
    return list(kept.values()), rejected


def to_dataset(consultations: list[Consultation]) -> Dataset:
    """Put consultations into the contract's columns."""
    columns: dict[str, list[str]] = {
        name: [getattr(consultation, name) for consultation in consultations] for name in features()
    }
    return Dataset.from_dict(columns, features=features())
