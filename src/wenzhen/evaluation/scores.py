"""The metrics of a system's answers, on all of them and on any part, and how sure they are."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenzhen.evaluation.bootstrap import Weights, resampled_sums
from wenzhen.evaluation.metrics import AnswerMetric, CharacterDistinct, Repetitive, SumMetric, make_metrics
from wenzhen.evaluation.predictions import Prediction
from wenzhen.models.likelihood import likelihood_values

Metrics = dict[str, Any]
# What can be said of answers alone.
REFERENCE_FREE = (CharacterDistinct, Repetitive)


class Scores:
    """What a system's answers are worth.

    Args:
        predictions: its answers; those of every system that it is compared to are on the same questions.
        facts: the phrases that count as facts.
    """

    def __init__(self, predictions: Sequence[Prediction], facts: Sequence[str]) -> None:
        self.predictions = predictions
        self.texts = [row.prediction for row in predictions]
        self.references = [row.answer for row in predictions if row.answer is not None]
        metrics = make_metrics(facts)
        if not self.references:
            metrics = [metric for metric in metrics if isinstance(metric, REFERENCE_FREE)]
        self.plain: list[AnswerMetric] = [metric for metric in metrics if not isinstance(metric, SumMetric)]
        # What is given to a metric without references must have their number.
        given = self.references or self.texts
        self.sums = [
            (metric.values, metric.statistics(self.texts, given))
            for metric in metrics
            if isinstance(metric, SumMetric)
        ]
        # How the libraries name what they counted.
        self.signatures = {
            key: text for metric in metrics if isinstance(metric, SumMetric) for key, text in metric.signatures.items()
        }
        if predictions[0].nll is not None:
            self.sums.append((likelihood_values, columns(predictions, "nll", "tokens", "padded_nll")))
        if predictions[0].ended is not None:
            self.sums.append((ended_values, columns(predictions, "ended")))

    @cached_property
    def overall(self) -> Metrics:
        """Every metric of all answers."""
        return self.of(range(len(self.texts)))

    def of(self, rows: Iterable[int]) -> Metrics:
        """Return every metric of some of the answers, by their numbers."""
        chosen = list(rows)
        results: Metrics = {"questions": len(chosen)}
        for values, statistics in self.sums:
            results |= {key: plain(value) for key, value in values(statistics[chosen].sum(0)).items()}
        results |= self.signatures
        texts = [self.texts[row] for row in chosen]
        references = [self.references[row] for row in chosen] if self.references else texts
        for metric in self.plain:
            results |= metric.compute(predictions=texts, references=references)
        return results

    def replicates(self, weights: Weights) -> dict[str, NDArray[np.float64]]:
        """Return every metric that is a matter of sums over answers, on resampled answers.

        Args:
            weights: how often each answer was drawn, `[times, answers]`.

        Returns:
            By the metric's name, `[times]`; nan where it is not defined.
        """
        results: dict[str, NDArray[np.float64]] = {}
        for values, statistics in self.sums:
            results |= values(resampled_sums(weights, statistics))
        return results


def columns(predictions: Sequence[Prediction], *names: str) -> NDArray[np.float64]:
    """Return attributes of predictions with a one behind them, `[answers, names + 1]`."""
    return np.array([[*(getattr(row, name) for name in names), 1] for row in predictions], dtype=np.float64)


def ended_values(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the share of answers that ended by themselves, of sums `[…, 2]`."""
    return {"ended": sums[..., 0] / sums[..., 1]}


def plain(value: Any) -> float | None:
    """Return a number as JSON has it; what is not defined is None."""
    return float(value) if np.isfinite(value) else None
