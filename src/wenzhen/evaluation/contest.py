"""Having several models answer the same questions, each in a process of its own, so that its memory is its own."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from wenzhen.errors import RunError, UsageError
from wenzhen.evaluation.asking import COSTS
from wenzhen.evaluation.comparison import Comparison, Verdict, find_leaks, floor_predictions, system_name
from wenzhen.evaluation.contest_folder import SYSTEMS, open_output, write_result
from wenzhen.evaluation.evaluator import model_recipe
from wenzhen.evaluation.predictions import Prediction, read_predictions
from wenzhen.evaluation.questions import Background, Consultations, load_background, select, split_consultations
from wenzhen.evaluation.scores import Scores
from wenzhen.evaluation.table import leak_lines
from wenzhen.folders import alone, as_text
from wenzhen.models import METRICS_FILE, PREDICTIONS_FILE, TRAINING_TIME
from wenzhen.models.classifier import refuse_classifier
from wenzhen.models.digest import WEIGHTS, model_digest
from wenzhen.recipe import Recipe


@dataclass(frozen=True)
class Contender:
    """A model and a way to have it answer.

    Attributes:
        name: in tables.
        folder: of the model.
        decoding: the way's name; None for the model's own.
    """

    name: str
    folder: Path
    decoding: str | None

    def place(self, output: Path) -> Path:
        """Return the folder of its answers in a comparison's."""
        # A name may hold what no file name can.
        digest = hashlib.sha256(self.name.encode(errors="surrogateescape")).hexdigest()[:8]
        return output / SYSTEMS / f"{self.folder.resolve().name}-{digest}"


def contenders_of(models: dict[str, Path], decodings: Sequence[str]) -> list[Contender]:
    """Have every model answer in every way; in its own where none is given.

    Args:
        models: folders by their names.
        decodings: names of ways to decode.
    """
    ways: Sequence[str | None] = list(dict.fromkeys(decodings)) or [None]
    contenders: list[Contender] = []
    for name, folder in models.items():
        for way in ways:
            own = name if len(ways) == 1 else f"{name} · {way}"
            own = system_name(own, [contender.name for contender in contenders])
            contenders.append(Contender(own, folder, way))
    return contenders


def compare_models(
    contenders: Sequence[Contender],
    output: Path,
    *,
    dataset: Path | None,
    split: str,
    department: str | None,
    limit: int | None,
    batch_size: int,
    floors: bool,
    machine: str,
    overwrite: bool,
) -> tuple[dict[str, Any], dict[str, Scores]]:
    """Have models answer the same questions, and compare them to each other and to the floors.

    Args:
        contenders: the models.
        output: the comparison's folder, which keeps every answer.
        dataset: a dataset folder; None for the one that the first model's recipe names.
        split, department, limit, batch_size: what to ask; see [`wenzhen.evaluation.evaluator.evaluate_model`].
        floors: whether the floors are to stand beside the models.
        machine: what it is computed on.
        overwrite: whether another comparison in the output folder may go.

    Returns:
        What `comparison.json` says, and the scores of every system by its name.

    Raises:
        UsageError: a model, the dataset or the output folder is not usable.
        RunError: a model's process failed.
    """
    recipes = {contender.name: model_recipe(contender.folder) for contender in contenders}
    digests = {contender.name: digest_of(contender.folder) for contender in contenders}
    place = dataset or Path(recipes[contenders[0].name].data.dataset)
    with_title = recipes[contenders[0].name].data.with_title
    background = load_background(place, with_title, floors)
    consultations = split_consultations(place, split, with_title)
    consultations = consultations.take(select(consultations, department, limit))
    asked = {
        "models": {contender.name: [digests[contender.name], contender.decoding] for contender in contenders},
        "questions": consultations.fingerprint,
        "training": background.training and background.training.fingerprint,
        "split": split,
        "department": department,
        "limit": limit,
        "batch_size": batch_size,
    }
    open_output(output, asked, overwrite)
    with alone(output):
        return compare_alone(contenders, recipes, output, asked, place, consultations, background, floors, machine)


def compare_alone(
    contenders: Sequence[Contender],
    recipes: dict[str, Recipe],
    output: Path,
    asked: dict[str, Any],
    dataset: Path,
    consultations: Consultations,
    background: Background,
    floors: bool,
    machine: str,
) -> tuple[dict[str, Any], dict[str, Scores]]:
    """Compare models in a folder that is no other comparison's; see [`compare_models`]."""
    given = {key: asked[key] for key in ("split", "department", "limit", "batch_size") if asked[key] is not None}
    options = [f"--dataset={dataset}", *(f"--{key.replace('_', '-')}={value}" for key, value in given.items())]
    costs, systems = {}, {}
    for contender in contenders:
        own = run_contender(contender, output, options)
        costs[contender.name] = {
            # What a model's own evaluation says of it that its answers do not.
            **{key: own.get(key) for key in ("decoding", *COSTS)},
            "way": own["decoding"]["description"],
            "network": recipes[contender.name].model.family,
            "training_seconds": training_seconds(contender.folder),
        }
        systems[contender.name] = checked_predictions(contender.place(output) / PREDICTIONS_FILE, consultations)
    if floors:
        systems |= floor_predictions(background.training, consultations)
    comparison = Comparison(systems, background.facts, find_leaks(background.training, consultations))
    title = f"{len(consultations):,} questions of {as_text(Path(dataset.name))}, {asked['split']} split"
    result = {
        "asked": asked,
        "title": title + (f", {asked['department']}" if asked["department"] else ""),
        **standings(comparison, list(costs)),
        "batch_size": asked["batch_size"],
        "machine": machine,
    }
    for name, cost in costs.items():
        result["systems"][name] |= cost
    write_result(output, result)
    return result, comparison.scores


def checked_predictions(file: Path, consultations: Consultations) -> list[Prediction]:
    """Read a contender's answers, which must be to what was asked.

    Raises:
        UsageError: somebody has changed them.
    """
    predictions = read_predictions(file)
    if [(row.id, row.answer) for row in predictions] != list(
        zip(consultations.ids, consultations.references or (), strict=True)
    ):
        raise UsageError(
            f"{file} is not to the questions of this comparison; remove its folder, and it is asked again"
        )
    return predictions


def standings(comparison: Comparison, models: list[str]) -> dict[str, Any]:
    """Return how each model stands by itself, against every floor, and against the first model.

    Args:
        comparison: of models and floors.
        models: the names of those that are no floors.
    """
    floors = [name for name in comparison.scores if name not in models]
    pairs = [(name, floor) for name in models for floor in floors] + [(name, models[0]) for name in models[1:]]
    verdicts = [verdict for pair in pairs if (verdict := comparison.verdict(*pair)).differences]
    systems = {name: comparison.summary(name) for name in comparison.scores}
    return {
        "models": models,
        "verdicts": [verdict.line for name in models for verdict in hardest(verdicts, name)],
        "scores": {
            name: {verdict.other: verdict.score for verdict in verdicts if verdict.system == name} for name in models
        },
        "differences": [verdict.as_json() for verdict in verdicts],
        "systems": systems,
        "leaks": leak_lines(systems[models[0]]["near_duplicates"]),
        "signatures": comparison.signatures(models[0]),
        "times": len(comparison.weights),
    }


def hardest(verdicts: Sequence[Verdict], name: str) -> list[Verdict]:
    """Return how a model stands against the nearest neighbour that it finds harder to beat, if there is one."""
    own = [verdict for verdict in verdicts if verdict.system == name and verdict.other.startswith("nearest")]
    return sorted(own, key=lambda verdict: (verdict.score[0], -verdict.score[2]))[:1]


def training_seconds(folder: Path) -> float | None:
    """Return how long a model was trained, where that is known."""
    try:
        seconds = json.loads((folder / TRAINING_TIME).read_text(encoding="utf-8"))["seconds"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return seconds if isinstance(seconds, int | float) else None


def digest_of(folder: Path) -> str:
    """Return a hash of a model.

    Raises:
        UsageError: the folder holds none, or a classifier.
    """
    refuse_classifier(folder)
    if any((folder / name).is_file() for name in WEIGHTS):
        return model_digest(folder)
    raise UsageError(
        f"{folder} holds no trained model; name a folder of wenzhen train that has finished (--losses compares "
        "unfinished runs)"
    )


def run_contender(contender: Contender, output: Path, options: Sequence[str]) -> dict[str, Any]:
    """Have a contender answer, unless it has.

    Args:
        contender: who answers.
        output: the comparison's folder.
        options: of `wenzhen evaluate`: what to ask.

    Returns:
        Its metrics.

    Raises:
        UsageError: it cannot be asked; its process said why.
        RunError: its process failed.
    """
    place = contender.place(output)
    metrics_file = place / METRICS_FILE
    if not metrics_file.is_file() or not (place / PREDICTIONS_FILE).is_file():
        tqdm.write(f"answering   {contender.name}", file=sys.stderr)
        decoding = [f"--decoding={contender.decoding}"] if contender.decoding else []
        # By its whole path, which no dash begins.
        command = ["evaluate", str(contender.folder.resolve()), f"--output={place}", "--no-floors", "--json"]
        process = subprocess.run(
            [sys.executable, "-m", "wenzhen", *command, *decoding, *options], stdout=subprocess.DEVNULL, check=False
        )
        if process.returncode == 2:
            raise UsageError(f"{contender.name} cannot be asked, for the reason above")
        if process.returncode in (-2, 130):
            raise KeyboardInterrupt
        if process.returncode:
            raise RunError(
                f"{contender.name} ended with status {process.returncode}; the same command goes on with the answers "
                "that there are"
            )
    try:
        metrics: dict[str, Any] = json.loads(metrics_file.read_text(encoding="utf-8"))
        # What a report cannot do without.
        str(metrics["decoding"]["description"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(f"{metrics_file} is damaged: {error!r}; remove its folder, and it is asked again") from error
    return metrics
