"""What is known of a model: how it was measured, what it was trained on, and what it cannot do."""

from operator import attrgetter
from typing import Any

from wenzhen.answering.answerer import Answerer
from wenzhen.corpus.splitting import SPLITS
from wenzhen.demo import texts
from wenzhen.demo.cards import render
from wenzhen.errors import UsageError
from wenzhen.evaluation.table import MEANINGS, department_rows, metric_rows
from wenzhen.models import DATASET_REPORT
from wenzhen.recipe import Recipe


def about_model(answerer: Answerer) -> str:
    """Return the page about one model, from the files of its folder; what is missing or damaged is said."""
    # It brings scikit-learn along.
    from wenzhen.hub.records import public_recipe, read_metrics, read_object

    problems: list[str] = []

    def attempt(read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except UsageError as error:
            problems.append(str(error))
            return None

    metrics = attempt(read_metrics, answerer.folder) or {}
    report = attempt(read_object, answerer.folder / DATASET_REPORT, "take the dataset's own, or remove it") or {}
    recipe = attempt(public_recipe, answerer.folder)
    longest = answerer.engine.default_generation_config.max_new_tokens
    return render(
        "about",
        answerer=answerer,
        limits=[
            [text.format(question=answerer.engine.max_question_length, answer=longest) for text in limit]
            for limit in texts.ABOUT_LIMITS
        ],
        metrics=metrics,
        rows=metric_rows(metrics),
        floors=list(metrics.get("floors", {})),
        departments=department_rows(metrics["departments"]) if metrics.get("departments") else [],
        meanings=MEANINGS,
        counts=counts(report),
        settings=settings(recipe) if recipe else [],
        problems=problems,
    )


def settings(recipe: Recipe) -> list[tuple[str, str, Any]]:
    """Return the settings that say most of a model: name in Chinese and English, and value."""
    return [(*names, attrgetter(path)(recipe)) for path, names in texts.RECIPE.items()]


def counts(report: dict[str, Any]) -> dict[str, Any] | None:
    """Return how many records a dataset's report counts; None where it does not say."""
    try:
        splits = {split: int(report["splits"][split]) for split in SPLITS}
        departments = {str(name): int(count) for name, count in report["departments"].items()}
        return {"read": int(report["read"]), "kept": int(report["kept"]), **splits, "departments": departments}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
