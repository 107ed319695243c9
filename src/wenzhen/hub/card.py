"""The cards: what a model folder's own files say about the model in it, and a dataset's report about its texts."""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from datasets import DatasetInfo
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData

METRIC_TYPES = {"bleu4_char": "bleu", "rougeL_char": "rouge", "perplexity": "perplexity"}
# The Hub's names for a dataset's size, by the number of rows that each stays below.
SIZE_CATEGORIES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
LARGEST_CATEGORY = "1M<n<10M"


def write_model_card(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    """Write a model folder's README.md from its recipe, its configuration and, where it is, its `metrics.json`.

    Args:
        folder: a model folder.
        rows: name, value and meaning of the metrics to show.
    """
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    metrics_file = folder / "metrics.json"
    metrics: dict[str, Any] = json.loads(metrics_file.read_text(encoding="utf-8")) if metrics_file.is_file() else {}
    dataset = Path(recipe["data"]["dataset"]).name
    measured_on = metrics.get("dataset", dataset)
    name = folder.resolve().name
    data = ModelCardData(
        language="zh",
        license="apache-2.0",
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["wenzhen", "medical", "question-answering", "custom_code"],
        model_name=name,
        eval_results=[
            EvalResult(
                task_type="text-generation",
                dataset_type=measured_on,
                dataset_name=measured_on,
                dataset_split=metrics["split"],
                metric_type=METRIC_TYPES[key],
                metric_name=f"{key}: {meaning}",
                metric_value=metrics[key],
            )
            for key, _, meaning in rows
            if key in METRIC_TYPES
        ]
        or None,
    )
    card = ModelCard.from_template(
        data,
        template_str=template("model_card.md.jinja"),
        name=name,
        dataset=dataset,
        config=config,
        recipe=recipe,
        metrics=metrics,
        rows=rows,
    )
    card.save(folder / "README.md")


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
    card = DatasetCard.from_template(
        data,
        template_str=template("dataset_card.md.jinja"),
        name=name,
        repository=repository,
        report=report,
        departments=info.features["department"].names,
        figures=figures,
        count="{:,}".format,
    )
    return str(card)


def template(name: str) -> str:
    """Return the text of one of this package's templates."""
    return resources.files("wenzhen.hub").joinpath(name).read_text(encoding="utf-8")
