"""Systems side by side: models and floors that answered the same questions, and how sure their differences are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from wenzhen.evaluation.bootstrap import Weights, interval, resample
from wenzhen.evaluation.floors import FLOORS, floor_answers
from wenzhen.evaluation.leakage import leaked
from wenzhen.evaluation.predictions import Prediction, predictions_of
from wenzhen.evaluation.questions import Consultations
from wenzhen.evaluation.scores import Metrics, Scores
from wenzhen.evaluation.table import MEASURES

CONFIDENCE = "95 %"
# With fewer questions the resamples are too alike to tell how sure anything is.
FEWEST = 20
Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """How much better one system is than another by a measure: the difference and the ends of its interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 where the whole interval is above 0, -1 where it is below, else 0."""
        return int(self.low > 0) - int(self.high < 0)


@dataclass(frozen=True)
class Verdict:
    """How a system stands against another, by the measure's name."""

    system: str
    other: str
    differences: dict[str, Difference]

    def as_json(self) -> dict[str, Any]:
        """Return the differences with their intervals."""
        differences = {name: [d.value, d.low, d.high] for name, d in self.differences.items()}
        return {"system": self.system, "other": self.other, "differences": differences}

    @property
    def score(self) -> tuple[int, int, int]:
        """On how many measures it is better, undecided and worse."""
        signs = [difference.sign for difference in self.differences.values()]
        return signs.count(1), signs.count(0), signs.count(-1)

    @property
    def line(self) -> str:
        """The verdict in words."""
        won, level, lost = self.score
        return (
            f"{self.system} beats {FLOORS.get(self.other, self.other)} on {won} of {won + level + lost} measures"
            f"{f', loses on {lost}' if lost else ''}{f', undecided on {level}' if level else ''} ({CONFIDENCE})"
        )


class Comparison:
    """Systems that answered the same questions.

    Args:
        systems: the answers of each, by its name, all to the same questions in the same order.
        facts: the phrases that count as facts.
        leaks: which of the questions have a near-duplicate in the training split, `[questions]`; None where that is
            unknown.
    """

    def __init__(
        self,
        systems: Mapping[str, Sequence[Prediction]],
        facts: Sequence[str] = (),
        leaks: NDArray[np.bool_] | None = None,
    ) -> None:
        with tqdm(systems.items(), desc="scoring", unit=" systems", disable=None, leave=False) as progress:
            self.scores = {name: Scores(predictions, facts) for name, predictions in progress}
        self.leaks = leaks

    @cached_property
    def weights(self) -> Weights:
        """How often each question comes in every resample, `[times, questions]`."""
        return resample(len(next(iter(self.scores.values())).texts))

    @cached_property
    def replicates(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Every system's metrics on the same resampled questions."""
        return {name: scores.replicates(self.weights) for name, scores in self.scores.items()}

    def intervals(self, system: str) -> dict[str, Interval]:
        """Return the interval of each of a system's metrics that has one."""
        metrics = self.scores[system].overall
        if metrics["questions"] < FEWEST:
            return {}
        return {
            name: interval(values)
            for name, values in self.replicates[system].items()
            if metrics.get(name) is not None and np.isfinite(values).any()
        }

    def verdict(self, system: str, other: str) -> Verdict:
        """Compare two systems by all measures that both have."""
        one, two = (self.scores[name].overall for name in (system, other))
        differences = {}
        for name in MEASURES if one["questions"] >= FEWEST else ():
            if one.get(name) is None or two.get(name) is None:
                continue
            replicates = self.replicates[system][name] - self.replicates[other][name]
            if np.isfinite(replicates).any():
                differences[name] = Difference(one[name] - two[name], *interval(replicates))
        return Verdict(system, other, differences)

    def departments(self, system: str) -> dict[str, Metrics]:
        """Return a system's metrics on the questions of each department, the largest first; none where it is one."""
        scores = self.scores[system]
        rows: dict[str, list[int]] = {}
        for row, prediction in enumerate(scores.predictions):
            rows.setdefault(prediction.department, []).append(row)
        if len(rows) < 2:
            return {}
        return {name: scores.of(rows[name]) for name in sorted(rows, key=lambda name: -len(rows[name]))}

    def leak_check(self, system: str) -> dict[str, Metrics] | None:
        """Return a system's metrics on the questions with and without a near-duplicate in training, those that there
        are; None where that is unknown."""
        if self.leaks is None:
            return None
        parts = {"with": np.flatnonzero(self.leaks), "without": np.flatnonzero(~self.leaks)}
        return {name: self.scores[system].of(rows.tolist()) for name, rows in parts.items() if len(rows)}

    def summary(self, system: str) -> dict[str, Any]:
        """Return all that is known of a system by itself."""
        return {
            **self.scores[system].overall,
            "intervals": {name: list(ends) for name, ends in self.intervals(system).items()},
            "departments": self.departments(system),
            "near_duplicates": self.leak_check(system),
        }

    def signatures(self, system: str) -> list[str]:
        """Return what the libraries call the ways in which they counted."""
        metrics = self.scores[system].overall
        return sorted(f"{key}: {value}" for key, value in metrics.items() if key.endswith("_signature"))


def system_name(name: str, taken: Sequence[str] = ()) -> str:
    """Return a model's name in tables, told apart from those of the floors and from those that are taken."""
    while name in FLOORS or name in taken:
        name = f"{name} (model)"
    return name


def floor_predictions(training: Consultations | None, asked: Consultations) -> dict[str, list[Prediction]]:
    """Return the floors' answers to questions; none where there are no real answers to learn from or to compare to."""
    if training is None or training.references is None or asked.references is None:
        return {}
    given = training.questions, training.references, asked.questions
    return {name: predictions_of(asked, floor_answers(name, *given)) for name in FLOORS}


def find_leaks(training: Consultations | None, asked: Consultations) -> NDArray[np.bool_] | None:
    """Tell which questions have a near-duplicate in the training split; None where there is none to look in."""
    return None if training is None else leaked(training.questions, asked.questions)
