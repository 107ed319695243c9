"""ROUGE (Lin 2004) as rouge-chinese counts it: F1 of each answer, mean, 0 to 100.

ROUGE-1 and ROUGE-2 count each different n-gram once; ROUGE-L takes the longest common subsequence of whole answers.
"""

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import LCSseq

from wenzhen.evaluation.metrics.base import Floats, MeanMetric, ratio
from wenzhen.evaluation.metrics.ngrams import Counts, NgramCounts, count_character_ngrams, count_ngrams
from wenzhen.evaluation.metrics.tokens import characters, words


class CharacterRouge(MeanMetric):
    """F1 of rouge-chinese's ROUGE-1, ROUGE-2 and ROUGE-L over characters without blanks; mean, 0 to 100."""

    keys = ("rouge1_char", "rouge2_char", "rougeL_char")
    scale = 100.0

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's three scores, [answers, 3], 0 to 1."""
        tokens = [characters(text) for text in predictions], [characters(text) for text in references]
        return _rouge(*tokens, count_character_ngrams(*tokens))


class WordRouge(MeanMetric):
    """F1 of rouge-chinese's ROUGE-1, ROUGE-2 and ROUGE-L over jieba's words without blanks; mean, 0 to 100."""

    keys = ("rouge1_word", "rouge2_word", "rougeL_word")
    scale = 100.0

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's three scores, [answers, 3], 0 to 1."""
        tokens = [words(text) for text in predictions], [words(text) for text in references]
        return _rouge(*tokens, count_ngrams(*tokens, order=2))


def _rouge(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], counts: NgramCounts) -> Floats:
    """Return each answer's ROUGE-1, ROUGE-2 and ROUGE-L, [answers, 3]; a text without tokens scores 0."""
    subsequences = np.fromiter(map(LCSseq.similarity, predictions, references), np.int64, len(predictions))
    return np.column_stack(
        [
            _f1(counts.shared_kinds[:, 0], counts.predicted_kinds[:, 0], counts.real_kinds[:, 0]),
            _f1(counts.shared_kinds[:, 1], counts.predicted_kinds[:, 1], counts.real_kinds[:, 1]),
            _f1(subsequences, counts.predicted[:, 0], counts.real[:, 0]),
        ]
    )


def _f1(shared: Counts, predicted: Counts, real: Counts) -> Floats:
    """Compute F1 from counts as the library does, small constant included."""
    precision = ratio(shared, predicted, 0.0)
    recall = ratio(shared, real, 0.0)
    return 2.0 * ((precision * recall) / (precision + recall + 1e-8))
