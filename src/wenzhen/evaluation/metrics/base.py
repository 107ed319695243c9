"""What a metric over answers is, and what lets it be computed again for any part of them."""

from abc import abstractmethod
from collections.abc import Sequence

import evaluate
import numpy as np
from datasets import Features, Value
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class AnswerMetric(evaluate.Metric):
    """A metric over pairs of generated and real answers, kept in memory, that needs no download.

    `compute(predictions=[str], references=[str])` returns a dictionary; None stands for what those texts leave
    undefined.
    """

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.__doc__ or "",
            citation="",
            features=Features({"predictions": Value("string"), "references": Value("string")}),
        )


class SumMetric(AnswerMetric):
    """A metric that depends on a sum over answers alone, so that any choice of answers is scored by adding rows up.

    `signatures` are keys that `compute` returns beside the values: how a library names what it counted.
    """

    signatures: dict[str, str] = {}

    @abstractmethod
    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return a row for each answer, [answers, k]; how rows of the same answers add up is all that counts."""

    @abstractmethod
    def values(self, sums: Floats) -> dict[str, Floats]:
        """Compute the metric from summed rows.

        Args:
            sums: [..., k].

        Returns:
            under each key an array [...]; NaN where the metric is undefined.
        """

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float | str | None]:
        values = self.values(self.statistics(predictions, references).sum(axis=0))
        return {key: None if np.isnan(value) else float(value) for key, value in values.items()} | self.signatures


class MeanMetric(SumMetric):
    """The mean of each answer's own scores, times `scale`."""

    keys: tuple[str, ...]
    scale: float = 1.0

    @abstractmethod
    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's scores, [answers, keys]."""

    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's scores and a one, [answers, keys + 1]."""
        return np.column_stack([self.scores(predictions, references), np.ones(len(predictions))])

    def values(self, sums: Floats) -> dict[str, Floats]:
        """Compute the means from summed rows [..., keys + 1]; NaN for no answers."""
        return {key: ratio(self.scale * sums[..., at], sums[..., -1]) for at, key in enumerate(self.keys)}


def ratio(
    numerator: Floats | NDArray[np.int64], denominator: Floats | NDArray[np.int64], otherwise: float = np.nan
) -> Floats:
    """Divide arrays of one shape; `otherwise` where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full(np.shape(numerator), otherwise), where=denominator != 0)
