"""chrF (Popović 2015) by sacreBLEU."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import CHRF

from wenzhen.evaluation.metrics.base import Floats, SumMetric, ratio
from wenzhen.evaluation.metrics.ngrams import CHARACTER_ORDER, count_character_ngrams
from wenzhen.evaluation.metrics.tokens import characters

# Recall weighs twice as much as precision.
BETA = 2


class ChrF(SumMetric):
    """sacreBLEU's corpus chrF2 over 1 to 6 characters without blanks, with its signature; 0 to 100."""

    def __init__(self) -> None:
        super().__init__()
        chrf = CHRF(char_order=CHARACTER_ORDER, beta=BETA)
        # Only after it has counted something does the library give its signature.
        chrf.corpus_score(["。"], [["。"]])
        self.signatures = {"chrf_signature": str(chrf.get_signature())}

    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return for each answer 6 numbers of n-grams, 6 of its reference's and 6 of matches, [answers, 18]."""
        counts = count_character_ngrams(map(characters, predictions), map(characters, references))
        # As the library has it: n-grams for which the reference is too short are not held against the answer.
        predicted = np.where(counts.real > 0, counts.predicted, 0)
        return np.hstack([predicted, counts.real, counts.matches]).astype(np.float64)

    def values(self, sums: Floats) -> dict[str, Floats]:
        """Compute chrF from summed rows [..., 18]: the F score of mean precision and mean recall."""
        predicted, real, matches = np.split(sums, 3, axis=-1)
        counted = (predicted > 0) & (real > 0)
        orders = counted.sum(axis=-1)
        precision = ratio((counted * ratio(matches, predicted, 0.0)).sum(axis=-1), orders, 0.0)
        recall = ratio((counted * ratio(matches, real, 0.0)).sum(axis=-1), orders, 0.0)
        weight = BETA**2
        return {"chrf": 100 * ratio((1 + weight) * precision * recall, weight * precision + recall, 0.0)}
