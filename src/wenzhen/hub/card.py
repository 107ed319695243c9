"""The model card: what a folder's own files say about the model in it."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

METRIC_TYPES = {"bleu4_char": "bleu", "rougeL_char": "rouge", "perplexity": "perplexity"}


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
    template = resources.files("wenzhen.hub").joinpath("model_card.md.jinja").read_text(encoding="utf-8")
    card = ModelCard.from_template(
        data,
        template_str=template,
        name=name,
        dataset=dataset,
        config=config,
        recipe=recipe,
        metrics=metrics,
        rows=rows,
    )
    card.save(folder / "README.md")
