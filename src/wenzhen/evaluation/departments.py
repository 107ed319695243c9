"""Measuring a classifier of departments, beside floors that need no model: the commonest, and the nearest question's.

A confusion matrix has a row for each real department and a column for each that was guessed.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenzhen.answering.departments import DepartmentGuesser
from wenzhen.errors import UsageError
from wenzhen.evaluation.bootstrap import interval, resample, resampled_sums
from wenzhen.evaluation.comparison import FEWEST
from wenzhen.evaluation.evaluator import find_questions, model_recipe, write_metrics
from wenzhen.evaluation.floors import nearest_bm25
from wenzhen.evaluation.questions import Consultations
from wenzhen.evaluation.table import aligned, interval_cell, number, shown, title
from wenzhen.folders import alone, name_of

CONFUSION = "figures/confusion.png"
# The normal distribution's quantile of a 95 % interval.
DEVIATIONS = 1.959964
FLOORS = {"majority": "the commonest department", "nearest_bm25": "the nearest neighbour (BM25)"}
Numbers = NDArray[np.int64]


def evaluate_departments(
    folder: Path,
    output: Path,
    *,
    dataset: Path | None = None,
    split: str = "test",
    file: Path | None = None,
    department: str | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    floors: bool = True,
) -> dict[str, Any]:
    """Have a classifier guess the departments of questions, and compare them with the real ones.

    Args:
        folder: a classifier's folder.
        output: folder for `metrics.json` and the figure of the confusion matrix; it is made where it is missing.
        dataset, split, file, department, limit, batch_size, floors: as
            [`wenzhen.evaluation.evaluator.evaluate_model`] takes them; a file needs a department in every line.

    Returns:
        What `metrics.json` says.

    Raises:
        UsageError: folder, dataset, split or file are not usable, or a department is none of the classifier's.
    """
    from wenzhen.evaluation.figures import draw_confusion

    guesser = DepartmentGuesser(folder)
    recipe = model_recipe(folder)
    asked, background, circumstances = find_questions(
        recipe, dataset=dataset, split=split, file=file, department=department, limit=limit, floors=floors
    )
    real = numbers_of(asked.departments, guesser.names)
    output.mkdir(parents=True, exist_ok=True)
    with alone(output):
        start = time.perf_counter()
        probabilities = guesser.probabilities(asked.questions, batch_size)
        seconds = time.perf_counter() - start
        guessed = probabilities.argmax(1)
        metrics = {
            "task": recipe.task,
            **circumstances,
            "with_title": recipe.data.with_title,
            "model": name_of(folder),
            "loss": float(-np.log(np.maximum(probabilities[np.arange(len(real)), real], 1e-300)).mean()),
            **scores(real, guessed, guesser.names),
            "questions_per_second": len(asked) / seconds,
            "parameters": guesser.model.num_parameters(),
            "floors": {},
        }
        if floors and background.training is not None:
            metrics["floors"] = {
                name: floor_scores(real, guessed, numbers_of(guesses, guesser.names), guesser.names)
                for name, guesses in floor_guesses(background.training, asked.questions).items()
            }
        draw_confusion(metrics["confusion"], guesser.names, output / CONFUSION)
        write_metrics(metrics, output)
    return metrics


def numbers_of(departments: Sequence[str], names: Sequence[str]) -> Numbers:
    """Return the number of each department, `[questions]`.

    Raises:
        UsageError: one is none of `names`.
    """
    numbers = {name: number for number, name in enumerate(names)}
    foreign = sorted(set(departments) - set(names))
    if foreign:
        raise UsageError(
            f"the department of a question is {foreign[0] or 'missing'}, and the classifier knows {', '.join(names)}; "
            "give each question one of these"
        )
    return np.array([numbers[department] for department in departments], dtype=np.int64)


def scores(real: Numbers, guessed: Numbers, names: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of guesses.

    Precision is the share of the guesses that are right, recall that of the real ones that are guessed, F1 their
    harmonic mean; macro F1 is the mean over the departments that occur among the real ones or the guesses.

    Args:
        real: the real departments' numbers, `[questions]`.
        guessed: those that were guessed, `[questions]`.
        names: of the departments.
    """
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (real, guessed), 1)
    right, asked, told = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    f1 = [2 * r / (a + t) if a + t else None for r, a, t in zip(right, asked, told, strict=True)]
    occurring = [value for value in f1 if value is not None]
    return {
        "questions": len(real),
        "accuracy": right.sum() / len(real),
        "accuracy_interval": wilson(int(right.sum()), len(real)),
        "macro_f1": sum(occurring) / len(occurring),
        "departments": {
            name: {
                "questions": int(asked[n]),
                "precision": right[n] / told[n] if told[n] else None,
                "recall": right[n] / asked[n] if asked[n] else None,
                "f1": f1[n],
            }
            for n, name in enumerate(names)
        },
        "confusion": confusion.tolist(),
    }


def wilson(successes: int, trials: int) -> list[float]:
    """Return the 95 % interval of a share (Wilson 1927), which is no point where all or none succeed."""
    share, z2 = successes / trials, DEVIATIONS**2
    middle = share + z2 / (2 * trials)
    reach = DEVIATIONS * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return [max((middle - reach) / (1 + z2 / trials), 0.0), min((middle + reach) / (1 + z2 / trials), 1.0)]


def floor_guesses(training: Consultations, questions: list[str]) -> dict[str, list[str]]:
    """Guess the departments of questions as each floor does."""
    commonest = Counter(training.departments).most_common(1)[0][0]
    nearest = nearest_bm25(training.questions, questions)
    return {
        "majority": [commonest] * len(questions),
        "nearest_bm25": [training.departments[row] for row in nearest],
    }


def floor_scores(real: Numbers, guessed: Numbers, floor: Numbers, names: Sequence[str]) -> dict[str, Any]:
    """Return a floor's metrics and, with enough questions, how much more accurate the classifier is, with the ends of
    the 95 % interval."""
    found = scores(real, floor, names)
    kept = {key: found[key] for key in ("accuracy", "accuracy_interval", "macro_f1")}
    if len(real) < FEWEST:
        return kept
    better = (guessed == real).astype(float) - (floor == real)
    draws = resampled_sums(resample(len(real)), better[:, None])[:, 0] / len(real)
    return {**kept, "difference": [float(better.mean()), *interval(draws)]}


def departments_table(metrics: dict[str, Any]) -> str:
    """Render a classifier's metrics for a terminal."""
    systems = {shown(metrics["model"]): metrics, **{FLOORS[name]: of for name, of in metrics["floors"].items()}}
    overall = [
        [name, number(of["accuracy"]), interval_cell(of["accuracy_interval"]), number(of["macro_f1"])]
        for name, of in systems.items()
    ]
    departments: dict[str, dict[str, Any]] = metrics["departments"]
    each = [
        [name, f"{of['questions']:,}", *(number(of[key]) for key in ("precision", "recall", "f1"))]
        for name, of in departments.items()
    ]
    confusion = [[name, *map(str, row)] for name, row in zip(departments, metrics["confusion"], strict=True)]
    lines = [
        f"{title(metrics)}, loss {number(metrics['loss'])} nats",
        *aligned([["", "accuracy", "95 % interval", "macro F1"], *overall]),
        "",
        *aligned([["", "questions", "precision", "recall", "F1"], *each]),
        "",
        "a row each real department, a column each that was guessed",
        *aligned([["", *departments], *confusion]),
        "",
    ]
    for name, floor in metrics["floors"].items():
        if "difference" in floor:
            value, low, high = (100 * end for end in floor["difference"])
            lines.append(f"{value:+.1f} points of accuracy over {FLOORS[name]} ({low:+.1f} to {high:+.1f})")
    return "\n".join(lines).rstrip()
