"""A model's card: what the files of its own folder say about it."""

from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData, get_local_safetensors_metadata

from wenzhen.evaluation.comparison import Difference, Verdict
from wenzhen.evaluation.table import MEANINGS, department_rows, metric_rows
from wenzhen.hub.card import damage_told, plain, render_card
from wenzhen.hub.records import public_recipe, read_metrics, read_object, read_steps
from wenzhen.models import DATASET_REPORT, FIGURE, SAFETY_RULES

# The Hub's names of metrics.
METRIC_TYPES = {"bleu4_char": "bleu", "rougeL_char": "rouge", "perplexity": "perplexity"}
WEIGHT_TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def write_model_card(folder: Path) -> None:
    """Write a model folder's README.md.

    Raises:
        UsageError: a file of the folder is damaged.
    """
    card = model_card(folder, plain(folder.resolve().name), folder / DATASET_REPORT)
    (folder / "README.md").write_text(card, encoding="utf-8")


def model_card(folder: Path, source: str, report_file: Path) -> str:
    """Return a model's README.md.

    Args:
        folder: a model folder; what it lacks of metrics, log and figure the card calls unknown.
        source: what the model is loaded by: `OWNER/NAME`, or the folder's name.
        report_file: what the dataset's report said; there may be none.

    Raises:
        UsageError: a file of the folder, or the report, is damaged.
    """
    title = source.split("/")[-1]
    recipe = public_recipe(folder)
    metrics = read_metrics(folder)
    steps = read_steps(folder)
    measured = [step for step in steps if "eval_loss" in step]
    counts = get_local_safetensors_metadata(folder).parameter_count
    own = "take the one that wenzhen train wrote"
    values = {
        "source": source,
        "dataset": recipe.data.dataset,
        "recipe": recipe,
        "config": plain(read_object(folder / "config.json", own)),
        "generation": plain(read_object(folder / "generation_config.json", own)),
        "parameters": sum(counts.values()),
        "weights": [WEIGHT_TYPES.get(kind, kind) for kind in counts],
        "code": [f"`{file.name}`" for file in sorted(folder.glob("*.py"))],
        "steps": steps,
        "best": min(measured, key=lambda step: step["eval_loss"], default=None),
        "measurements": len(measured),
        "figure": FIGURE if (folder / FIGURE).is_file() else None,
        "rules": SAFETY_RULES if (folder / SAFETY_RULES).is_file() else None,
        "metrics": metrics,
        "rows": metric_rows(metrics),
        "departments": department_rows(metrics["departments"]) if metrics.get("departments") else [],
        "meanings": MEANINGS,
        "verdicts": verdict_lines(title, metrics),
    }
    data = card_data(title, metrics)
    advice = "take the dataset's own report.json, or remove it"
    report = read_object(report_file, advice)
    # All else is checked: what fails now is the report's.
    with damage_told(report_file, advice):
        return render_card("model_card.md.jinja", data, report=plain(report), **values)


def verdict_lines(name: str, metrics: dict[str, Any]) -> list[str]:
    """Return how a model stands against the floors, in words."""
    verdicts = [
        Verdict(name, floor, {key: Difference(*values) for key, values in found["differences"].items()})
        for floor, found in metrics.get("floors", {}).items()
    ]
    return [verdict.line for verdict in verdicts if verdict.differences]


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
        for key, meaning in MEANINGS.items()
        if key in METRIC_TYPES and metrics.get(key) is not None
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
