"""A dataset's card: what its report says about its texts."""

from collections.abc import Sequence
from typing import Any

from datasets import DatasetInfo
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCardData

from wenzhen.hub.card import plain, render_card

# The Hub's names for a dataset's size, by the number of rows that each stays below.
SIZE_CATEGORIES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
LARGEST_CATEGORY = "1M<n<10M"


def dataset_card(repository: str, report: dict[str, Any], info: DatasetInfo, figures: Sequence[str]) -> str:
    """Return a dataset repository's README.md.

    Args:
        repository: `OWNER/NAME`; its shards are `data/SPLIT-*`.
        report: what the dataset's `report.json` holds.
        info: features, splits and sizes, which the card's header repeats for whoever loads the dataset.
        figures: names of the pictures in the repository's `figures`.
    """
    name = repository.split("/")[1]
    rows = sum(split.num_examples for split in info.splits.values())
    data = DatasetCardData(
        language="zh",
        # Whose the texts are is not in them.
        license="unknown",
        pretty_name=name,
        task_categories=["question-answering", "text-generation"],
        size_categories=next((size for limit, size in SIZE_CATEGORIES.items() if rows < limit), LARGEST_CATEGORY),
        tags=["wenzhen", "medical"],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*"} for split in info.splits],
            }
        ],
    )
    DatasetInfosDict({"default": info}).to_dataset_card_data(data)
    return render_card(
        "dataset_card.md.jinja",
        data,
        name=name,
        repository=repository,
        report=plain(report),
        departments=plain(info.features["department"].names),
        figures=figures,
    )
