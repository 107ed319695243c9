"""A model's card: what the files of its own folder say about it."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData, get_local_safetensors_metadata

from wenzhen.errors import UsageError
from wenzhen.evaluation.table import metric_rows
from wenzhen.hub.card import render_card
from wenzhen.models import DATASET_REPORT, FIGURE, LOG_FILE, METRICS_FILE
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe
from wenzhen.training.log import read_log

# The Hub's names of metrics.
METRIC_TYPES = {"bleu4_char": "bleu", "rougeL_char": "rouge", "perplexity": "perplexity"}
WEIGHT_TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def write_model_card(folder: Path) -> None:
    """Write a model folder's README.md.

    Raises:
        UsageError: a file of the folder cannot be read.
    """
    card = model_card(folder, folder.resolve().name, read_object(folder / DATASET_REPORT))
    (folder / "README.md").write_text(card, encoding="utf-8")


def model_card(folder: Path, source: str, report: dict[str, Any]) -> str:
    """Return a model's README.md.

    Args:
        folder: a model folder; what it lacks of metrics, log and figure the card calls unknown.
        source: what the model is loaded by: `OWNER/NAME`, or the folder's name.
        report: what the dataset's report holds; empty where there was none.

    Raises:
        UsageError: a file of the folder cannot be read.
    """
    recipe = public_recipe(folder)
    metrics = read_metrics(folder)
    steps = read_steps(folder)
    measured = [step for step in steps if "eval_loss" in step]
    counts = get_local_safetensors_metadata(folder).parameter_count
    return render_card(
        "model_card.md.jinja",
        card_data(source.split("/")[-1], metrics),
        source=source,
        dataset=recipe.data.dataset,
        recipe=recipe,
        config=read_object(folder / "config.json"),
        generation=read_object(folder / "generation_config.json"),
        parameters=sum(counts.values()),
        weights=[WEIGHT_TYPES.get(kind, kind) for kind in counts],
        code=[f"`{file.name}`" for file in sorted(folder.glob("*.py"))],
        report=report,
        steps=steps,
        best=min(measured, key=lambda step: step["eval_loss"], default=None),
        measurements=len(measured),
        figure=FIGURE if (folder / FIGURE).is_file() else None,
        metrics=metrics,
        rows=metric_rows(metrics),
    )


def card_data(name: str, metrics: dict[str, Any]) -> ModelCardData:
    """Return the header: what the Hub sorts and shows models by."""
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type=metrics["dataset"],
            dataset_name=metrics["dataset"],
            dataset_split=metrics["split"],
            dataset_args={"questions": metrics["questions"]},
            metric_type=METRIC_TYPES[key],
            metric_name=f"{key}: {meaning}",
            metric_value=metrics[key],
        )
        for key, _, meaning in metric_rows(metrics)
        if key in METRIC_TYPES
    ]
    return ModelCardData(
        language="zh",
        # It depends on whose the training texts are, which is not in them.
        license="unknown",
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["wenzhen", "medical", "question-answering", "encoder-decoder", "custom_code"],
        model_name=name,
        eval_results=results or None,
    )


def public_recipe(folder: Path) -> Recipe:
    """Return a model folder's recipe with names in the place of paths, which tell about the machine it was trained on.

    Raises:
        UsageError: there is no recipe, or it is damaged.
    """
    recipe = load_recipe(str(folder / RECIPE_FILE))
    for section in (recipe, *(getattr(recipe, field.name) for field in fields(recipe))):
        if is_dataclass(section):
            for field in fields(section):
                value = getattr(section, field.name)
                if isinstance(value, str):
                    # A text is a path, or a word in which nothing changes.
                    setattr(section, field.name, Path(value).name or value)
    return recipe


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return a model folder's metrics, empty where it was not measured."""
    metrics = read_object(folder / METRICS_FILE)
    if metrics and not {"dataset", "split", "questions", "decoding"} <= metrics.keys():
        raise UsageError(f"{folder / METRICS_FILE} is not of `wenzhen evaluate`; measure again, or remove it")
    return metrics


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a model folder's training log, none where it has no log."""
    try:
        return read_log(folder) if (folder / LOG_FILE).is_file() else []
    except ValueError as error:
        raise UsageError(f"{folder / LOG_FILE} is no log of `wenzhen train`: {error}") from error


def read_object(file: Path) -> dict[str, Any]:
    """Return what a JSON file holds, nothing where there is no such file."""
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file} must hold a JSON object, it holds a {type(content).__name__}")
    return content
