"""Whether answers state the facts that the real ones state."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from wenzhen.evaluation.metrics.base import Floats, SumMetric, ratio


class FactRecall(SumMetric):
    """Share of the facts stated in the real answers that the generated ones state too, 0 to 1.

    Args:
        facts: the phrases that count as facts. A phrase inside a longer one that a real answer states is not counted.
    """

    def __init__(self, facts: Sequence[str]) -> None:
        super().__init__()
        self.facts: defaultdict[str, set[str]] = defaultdict(set)
        for fact in facts:
            self.facts[fact[:1]].add(fact)

    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return for each answer how many facts it recalls and how many its reference states, [answers, 2]."""
        rows = []
        for prediction, reference in zip(predictions, references, strict=True):
            facts = self.stated_in(reference)
            rows.append([sum(fact in prediction for fact in facts), len(facts)])
        return np.asarray(rows, np.float64).reshape(-1, 2)

    def values(self, sums: Floats) -> dict[str, Floats]:
        """Divide summed counts [..., 2]; NaN where no facts are stated."""
        return {"fact_recall": ratio(sums[..., 0], sums[..., 1])}

    def stated_in(self, text: str) -> set[str]:
        """Return the facts that a text states."""
        found = {
            fact
            for start, first in enumerate(text)
            for fact in self.facts.get(first, ())
            if text.startswith(fact, start)
        }
        return {fact for fact in found if not any(fact != other and fact in other for other in found)}
