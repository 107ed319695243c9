"""A dataset's card."""

from pathlib import Path
from typing import Any

import pytest
from datasets import DatasetInfo, load_from_disk
from huggingface_hub import DatasetCard

from wenzhen.hub.dataset import describe
from wenzhen.hub.dataset_card import dataset_card


@pytest.fixture
def info(dataset: Path) -> DatasetInfo:
    return describe(dict(load_from_disk(dataset)), download_bytes=1_000)


def test_dataset_card_states_every_count(report: dict[str, Any], info: DatasetInfo) -> None:
    card = DatasetCard(dataset_card("tester/wenzhen-data", report, info, ["lengths.png"]))
    rows = {line.strip() for line in card.text.splitlines()}
    assert {
        "# wenzhen-data",
        'dataset = load_dataset("tester/wenzhen-data")',
        "| duplicate | 1,000 |",
        "| empty answer | 5 |",
        "| questions | 0 | 0 | 3 | 7 |",
        "| answers | 0 | 0 | 4 | 8 |",
        "| near duplicates | 1 | 2 | 3 | 7 |",
        "| question | 21.2 | 20 | 40 | 55 | 1,234 |",
        "| telephone | 11 |",
        "| email | 15 |",
        "![lengths.png](figures/lengths.png)",
    } <= rows
    splits = report["splits"]
    kept = f"{sum(splits.values()):,}"
    counts = " | ".join(f"{number:,}" for number in splits.values())
    assert {f"| 男科 | {counts} | 1 |", f"| all | {counts} | {kept} |"} <= rows
    assert any(row.startswith("| 男科/a b.csv | gb18030 |") for row in rows)
    text = " ".join(card.text.split())
    for sentence in (
        f"{kept} Chinese medical consultations of 6 departments",
        f"{sum(splits.values()) + 1_005:,} records from 1 file = {kept} kept + 1,005 rejected",
        "remains of HTML 31 records; control characters not done; white space 32 records",
        "contacts masked 34 records",
        "17 share a question or an answer with an earlier one; 18 are nearly the same as another.",
        "16 records are longer than the bounds and marked `too_long`, with a question of more than 1,000 characters "
        "or an answer of more than 2,000.",
        "(Jaccard similarity of the character 5-grams: 0.8 or more), stay on one side of the split.",
        "30% for test and 5% of the rest for validation; seed 42.",
        "1,234,567 characters, 4,321 different ones; the 1,500 most frequent cover 0.99 of them",
        "Of the characters of validation, 0.0120% and of test, 0.0340% never stand in train.",
        "does not find every one",
        "no medical advice",
    ):
        assert sentence in text
    assert "\n\n\n" not in card.text


def test_dataset_card_header_describes_the_dataset(report: dict[str, Any], info: DatasetInfo) -> None:
    data = DatasetCard(dataset_card("tester/wenzhen-data", report, info, [])).data
    assert data.language == "zh"
    assert data.license == "unknown"
    assert data.task_categories == ["question-answering", "text-generation"]
    assert data.size_categories == "n<1K"
    assert data.configs[0]["data_files"] == [
        {"split": split, "path": f"data/{split}-*"} for split in ("train", "validation", "test")
    ]
    sizes = {split["name"]: split["num_examples"] for split in data.dataset_info["splits"]}
    assert sizes == report["splits"]
    names = {feature["name"]: feature["dtype"] for feature in data.dataset_info["features"]}
    assert list(names) == ["id", "department", "sub_department", "title", "question", "answer", "too_long"]
    assert names["department"]["class_label"]["names"]["0"] == "男科"


@pytest.mark.parametrize(("rows", "size"), [(999, "n<1K"), (1_000, "1K<n<10K"), (792_099, "100K<n<1M")])
def test_size_category(report: dict[str, Any], info: DatasetInfo, rows: int, size: str) -> None:
    others = sum(split.num_examples for name, split in info.splits.items() if name != "train")
    info.splits["train"].num_examples = rows - others
    assert DatasetCard(dataset_card("tester/data", report, info, [])).data.size_categories == size


@pytest.mark.parametrize("given", ["nothing more", "null"])
def test_dataset_card_of_a_report_that_says_little(report: dict[str, Any], info: DatasetInfo, given: str) -> None:
    needed = ("read", "kept", "rejected", "splits")
    little = {key: report[key] if key in needed else None for key in report if key in needed or given == "null"}
    text = DatasetCard(dataset_card("tester/data", little, info, [])).text
    assert f"| train | {report['splits']['train']:,} |" in text
    assert "**Contacts were not masked.**" in text
    for absent in ("Leakage", "Lengths", "Characters", "None", "Cleaned"):
        assert absent not in text
    assert "\n\n\n" not in text


def test_dataset_card_says_what_was_switched_off(report: dict[str, Any], info: DatasetInfo) -> None:
    report["cleaning"]["contacts"] = None
    report["split"] = report["split"] | {"method": "random", "near_duplicates": None}
    report["leakage"]["near_duplicates"] = report["leakage_of_random_split"] = None
    text = DatasetCard(dataset_card("tester/data", report, info, [])).text
    assert "**Contacts were not masked.**" in text
    assert "| telephone |" not in text
    assert "one question may stand on both sides of the split" in text
    assert "| answers | 0 | 0 |\n" in text
    assert "near duplicates" not in text
