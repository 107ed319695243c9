"""How sure a score is, and a difference of two: the paired bootstrap (Efron 1979; Koehn 2004).

Answers are drawn with replacement, as many as there are, and the score of each draw is computed again. Scores of two
systems in the same draws differ by what the systems differ by; what the questions were has gone out of it.
"""

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.uint8]
Floats = NDArray[np.float64]


def resample(answers: int, times: int = 1000, seed: int = 0) -> Weights:
    """Draw `answers` of the answers with replacement, `times` over: how often each came, [times, answers].

    Use the same draws for every system, so that their scores are paired.
    """
    random = np.random.default_rng(seed)
    # That one answer comes more than 255 times is out of the question.
    weights = np.empty((times, answers), np.uint8)
    for row in weights:
        row[:] = np.bincount(random.integers(answers, size=answers), minlength=answers)
    return weights


def resampled_sums(weights: Weights, statistics: Floats) -> Floats:
    """Add up a metric's rows for each draw.

    Args:
        weights: how often each answer came, [times, answers].
        statistics: [answers, k].

    Returns:
        [times, k], what the metric's `values` takes.
    """
    return np.stack([row.astype(np.float64) @ statistics for row in weights])


def interval(values: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of a score, or of a difference of two, over the draws [times].

    Draws that leave the score undefined (none of a small department's answers came) are left out; NaN where all do.
    """
    defined = values[~np.isnan(values)]
    if not len(defined):
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)
