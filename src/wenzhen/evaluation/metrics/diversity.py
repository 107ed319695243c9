"""What answers are like by themselves: how varied, how repetitive, how long."""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from wenzhen.evaluation.metrics.base import AnswerMetric, Floats, MeanMetric, SumMetric, ratio


class CharacterDistinct(AnswerMetric):
    """Distinct-1 and distinct-2 (Li et al. 2016): different characters, and pairs of them, over all of them; 0 to 1.

    They are no sums over answers, as an n-gram counts once however many answers have it, and they fall when there are
    more answers. So answers drawn with replacement, of which some come twice, do not tell how sure they are.
    """

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        kinds = set(itertools.chain.from_iterable(predictions))
        pairs = set(itertools.chain.from_iterable(map(itertools.pairwise, predictions)))
        characters = sum(map(len, predictions))
        all_pairs = characters - sum(map(bool, predictions))
        return {
            "distinct1_char": len(kinds) / characters if characters else 0.0,
            "distinct2_char": len(pairs) / all_pairs if all_pairs else 0.0,
        }


class Repetitive(MeanMetric):
    """Share of answers in which some four neighbouring characters come three times or more, 0 to 1."""

    keys = ("repetitive",)

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return 1 for each repetitive answer and 0 for others, [answers, 1]."""
        return np.fromiter(map(is_repetitive, predictions), np.float64, len(predictions))[:, None]


class LengthRatio(SumMetric):
    """Characters of the answers over characters of the real ones; 1 is as long."""

    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return the lengths of each answer and its reference, [answers, 2]."""
        lengths = [
            [len(prediction), len(reference)] for prediction, reference in zip(predictions, references, strict=True)
        ]
        return np.asarray(lengths, np.float64).reshape(-1, 2)

    def values(self, sums: Floats) -> dict[str, Floats]:
        """Divide summed lengths [..., 2]; NaN where the real answers are empty."""
        return {"length_ratio": ratio(sums[..., 0], sums[..., 1])}


def is_repetitive(text: str, size: int = 4, times: int = 3) -> bool:
    """Tell whether some `size` neighbouring characters come `times` times or more, overlaps counted."""
    counts = Counter(text[start : start + size] for start in range(len(text) - size + 1))
    return max(counts.values(), default=0) >= times
