"""Measuring a model, or answers that were written before, beside the floors."""

import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from wenzhen.answering.decoding import Decoding, describe
from wenzhen.answering.engines import load_engine
from wenzhen.corpus.loading import split_leakage
from wenzhen.errors import UsageError
from wenzhen.evaluation.asking import COSTS, ask
from wenzhen.evaluation.comparison import Comparison, find_leaks, floor_predictions, system_name
from wenzhen.evaluation.predictions import Prediction, consultations_of, read_predictions, write_predictions
from wenzhen.evaluation.questions import (
    Background,
    Consultations,
    load_background,
    read_file,
    select,
    split_consultations,
)
from wenzhen.evaluation.table import OWN_FILE
from wenzhen.folders import alone, name_of, replace_file
from wenzhen.models import METRICS_FILE, PARTIAL_PREDICTIONS, PREDICTIONS_FILE
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe

# What metrics.json says that is no metric: it stays when the metrics are counted again.
CIRCUMSTANCES = (
    "model",
    "dataset",
    "dataset_folder",
    "with_title",
    "split",
    "leakage",
    "department",
    "limit",
    "decoding",
    *COSTS,
)


def evaluate_model(
    folder: Path,
    output: Path,
    *,
    dataset: Path | None = None,
    split: str = "test",
    file: Path | None = None,
    department: str | None = None,
    limit: int | None = None,
    decoding: Decoding | None = None,
    batch_size: int = 64,
    floors: bool = True,
) -> dict[str, Any]:
    """Score the real answers to questions, have the model answer them, and compare the two.

    Args:
        folder: a model folder.
        output: folder for `predictions.jsonl` and `metrics.json`; it is made where it is missing.
        dataset: a dataset folder; None for the one that the model's recipe names.
        split: `test`, `validation` or `train`.
        file: questions to ask in the split's place; see [`wenzhen.evaluation.questions.read_file`].
        department: measure on its questions alone.
        limit: measure on so many questions, drawn with a fixed seed; None for all.
        decoding: None for the model's own way to answer.
        batch_size: questions at a time.
        floors: whether the floors are to stand beside the model.

    Returns:
        What `metrics.json` says.

    Raises:
        UsageError: folder, dataset, split or file are not usable.
    """
    engine = load_engine(folder)
    recipe = model_recipe(folder)
    asked, background, circumstances = find_questions(
        recipe, dataset=dataset, split=split, file=file, department=department, limit=limit, floors=floors
    )
    output.mkdir(parents=True, exist_ok=True)
    draft = output / PARTIAL_PREDICTIONS
    used = engine.generation_config(decoding)
    circumstances["decoding"] = {
        "num_beams": used.num_beams or 1,
        "do_sample": bool(used.do_sample),
        "description": describe(used),
    }
    circumstances["with_title"] = recipe.data.with_title
    # To the end: predictions and metrics of one folder belong together.
    with alone(output):
        predictions, cost = ask(engine, folder, recipe, asked, decoding, batch_size, draft)
        write_predictions(predictions, output / PREDICTIONS_FILE)
        metrics = measure(name_of(folder), predictions, background, circumstances | cost.as_metrics(), floors)
        write_metrics(metrics, output)
        draft.unlink(missing_ok=True)
    return metrics


def find_questions(
    recipe: Recipe,
    *,
    dataset: Path | None,
    split: str,
    file: Path | None,
    department: str | None,
    limit: int | None,
    floors: bool,
) -> tuple[Consultations, Background, dict[str, Any]]:
    """Load what a model is to be asked, what its dataset knows besides, and what `metrics.json` says of both.

    Args:
        recipe: the model's.
        dataset, split, file, department, limit, floors: as [`evaluate_model`] takes them.

    Raises:
        UsageError: dataset, split or file are not usable.
    """
    place = dataset or Path(recipe.data.dataset)
    with_title = recipe.data.with_title
    if file is None:
        asked = split_consultations(place, split, with_title)
        circumstances: dict[str, Any] = {"dataset": place.name, "split": split, "leakage": split_leakage(place, split)}
    else:
        asked = read_file(file)
        circumstances = {"dataset": file.name, "split": OWN_FILE, "leakage": None}
    # Questions of one's own can be asked without a dataset; then there are no floors.
    known = file is None or dataset is not None or place.is_dir()
    background = load_background(place, with_title, floors) if known else Background()
    asked = asked.take(select(asked, department, limit))
    circumstances |= {"department": department, "limit": limit, "dataset_folder": str(place.resolve())}
    return asked, background, circumstances


def evaluate_predictions(
    file: Path,
    *,
    output: Path | None = None,
    dataset: Path | None = None,
    department: str | None = None,
    limit: int | None = None,
    floors: bool = True,
) -> dict[str, Any]:
    """Count the metrics of answers again that `wenzhen evaluate` has written.

    Args:
        file: a `predictions.jsonl`.
        output: folder for `metrics.json`; None to write none.
        dataset: whose training split and facts are looked up; None for the one that a `metrics.json` beside the
            file names, if there is one.
        department, limit, floors: as [`evaluate_model`] takes them.

    Raises:
        UsageError: the file holds no predictions, or the dataset is not usable.
    """
    predictions = read_predictions(file)
    rows = select(consultations_of(predictions), department, limit)
    circumstances = read_circumstances(file.with_name(METRICS_FILE), len(predictions))
    given = {"department": department, "limit": limit}
    circumstances |= {key: value for key, value in given.items() if value is not None}
    place = dataset or Path(circumstances["dataset_folder"] or "")
    if dataset is not None or (circumstances["dataset_folder"] and place.is_dir()):
        background = load_background(place, circumstances["with_title"], floors)
    else:
        background = Background()
        tqdm.write("no floors, no facts and no leak check: the dataset is unknown; name it with --dataset", sys.stderr)
    chosen = [predictions[row] for row in rows]
    metrics = measure(circumstances["model"] or name_of(file.parent), chosen, background, circumstances, floors)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_metrics(metrics, output)
    return metrics


def measure(
    model: str,
    predictions: list[Prediction],
    background: Background,
    circumstances: dict[str, Any],
    floors: bool,
) -> dict[str, Any]:
    """Count the metrics of a model's answers, beside the floors where they are wanted and there can be any."""
    asked = consultations_of(predictions)
    name = system_name(model)
    systems = {name: predictions}
    if floors:
        systems |= floor_predictions(background.training, asked)
    comparison = Comparison(systems, background.facts, find_leaks(background.training, asked))
    verdicts = [comparison.verdict(name, floor) for floor in systems if floor != name]
    return {
        **circumstances,
        "model": model,
        **comparison.summary(name),
        "floors": {
            verdict.other: {**comparison.scores[verdict.other].overall, **verdict.as_json()} for verdict in verdicts
        },
        "verdicts": [verdict.line for verdict in verdicts if verdict.differences],
    }


def write_metrics(metrics: dict[str, Any], output: Path) -> None:
    """Write `metrics.json`; the file appears whole or not at all."""
    with replace_file(output / METRICS_FILE) as draft:
        draft.write_text(json.dumps(metrics, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_circumstances(file: Path, questions: int) -> dict[str, Any]:
    """Return what a `metrics.json` says that is no metric, if it is of so many questions."""
    unknown: dict[str, Any] = {
        "model": None,
        "dataset": "unknown",
        "split": "unknown",
        "leakage": None,
        "decoding": None,
    }
    unknown |= {"department": None, "limit": None, "dataset_folder": None, "with_title": False}
    if not file.is_file():
        return unknown
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        if known["questions"] != questions:
            return unknown
        return unknown | {key: known[key] for key in CIRCUMSTANCES if key in known}
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{file} is damaged: {error}; remove it, or measure again with wenzhen evaluate") from error


def model_recipe(folder: Path) -> Recipe:
    """Read the recipe that a model was trained by."""
    if not folder.is_dir():
        raise UsageError(f"no model folder {folder}; make one with: make quickstart, or wenzhen train RECIPE")
    if not (folder / RECIPE_FILE).is_file():
        raise UsageError(f"{folder} is no model folder of wenzhen train: it lacks {RECIPE_FILE}")
    return load_recipe(str(folder / RECIPE_FILE))
