"""BLEU (Papineni et al. 2002): of all answers by sacreBLEU, and the mean of single answers in two ways; 0 to 100."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import BLEU

from wenzhen.evaluation.metrics.base import Floats, MeanMetric, SumMetric, ratio
from wenzhen.evaluation.metrics.ngrams import NgramCounts, count_character_ngrams, count_ngrams
from wenzhen.evaluation.metrics.tokens import characters, chinese_tokens

ORDER = 4


class CorpusBleu(SumMetric):
    """sacreBLEU's corpus BLEU-1 to BLEU-4, and its signature."""

    tokenization: str
    signature_key: str

    def __init__(self) -> None:
        super().__init__()
        bleu = BLEU(tokenize=self.tokenization)
        # Only after it has counted something does the library give its signature.
        bleu.corpus_score(["。"], [["。"]])
        self.signatures = {self.signature_key: str(bleu.get_signature())}

    @abstractmethod
    def count(self, predictions: Sequence[str], references: Sequence[str]) -> NgramCounts:
        """Count n-grams of at least 4 tokens."""

    def statistics(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return for each answer its length, its reference's, 4 matches and 4 n-grams, [answers, 10]."""
        counts = self.count(predictions, references)
        lengths = np.column_stack([counts.predicted[:, 0], counts.real[:, 0]])
        return np.hstack([lengths, counts.matches[:, :ORDER], counts.predicted[:, :ORDER]]).astype(np.float64)

    def values(self, sums: Floats) -> dict[str, Floats]:
        """Compute the four scores from summed rows [..., 10]."""
        orders = range(1, ORDER + 1)
        return {f"bleu{order}_{self.tokenization}": np.apply_along_axis(_bleu, -1, sums, order) for order in orders}


class CharacterBleu(CorpusBleu):
    """sacreBLEU's corpus BLEU-1 to BLEU-4 over characters (its tokenization `char`), with its signature; 0 to 100."""

    tokenization = "char"
    signature_key = "bleu4_char_signature"

    def count(self, predictions: Sequence[str], references: Sequence[str]) -> NgramCounts:
        """Count n-grams of characters."""
        return count_character_ngrams(map(characters, predictions), map(characters, references))


class ChineseBleu(CorpusBleu):
    """sacreBLEU's corpus BLEU-1 to BLEU-4 in its tokenization `zh`, with its signature; 0 to 100.

    Chinese characters stand alone, what is written in other letters or digits is cut into words.
    """

    tokenization = "zh"
    signature_key = "bleu_zh_signature"

    def count(self, predictions: Sequence[str], references: Sequence[str]) -> NgramCounts:
        """Count n-grams of `zh` tokens."""
        return count_ngrams([*map(chinese_tokens, predictions)], [*map(chinese_tokens, references)], ORDER)


class LectureBleu(MeanMetric):
    """BLEU-4 of each answer by itself over characters as lectures define it, unsmoothed; mean, 0 to 100.

    The geometric mean of the clipped precisions of 1 to 4 characters, times exp(1 - reference's length / answer's
    length) for an answer shorter than its reference; 0 where no 4 characters in a row match.
    """

    keys = ("bleu4_lecture",)
    scale = 100.0

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's BLEU-4, [answers, 1], 0 to 1."""
        counts = count_character_ngrams(map(characters, predictions), map(characters, references))
        return sentence_bleu(counts, smoothed=False)[:, None]


class PTuningBleu(MeanMetric):
    """BLEU-4 of each answer by itself over characters, blanks included, smoothed (NLTK's `method3`); mean, 0 to 100.

    So does the P-Tuning script of ChatGLM-6B count; in its first version it did not smooth, as [`LectureBleu`]. An
    answer without any match scores 0; otherwise the k-th order without a match counts as 1/2^k of a match.
    """

    keys = ("bleu4_ptuning",)
    scale = 100.0

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> Floats:
        """Return each answer's BLEU-4, [answers, 1], 0 to 1."""
        return sentence_bleu(count_character_ngrams(predictions, references), smoothed=True)[:, None]


def sentence_bleu(counts: NgramCounts, *, smoothed: bool) -> Floats:
    """Compute the BLEU-4 of each answer by itself, [answers], 0 to 1."""
    matches = counts.matches[:, :ORDER]
    missed = matches == 0
    stand_in = 0.5 ** np.cumsum(missed, axis=1) if smoothed else 0.0
    precisions = np.where(missed, stand_in, matches) / np.maximum(counts.predicted[:, :ORDER], 1)
    relative_length = ratio(counts.real[:, 0], counts.predicted[:, 0], np.inf)
    brevity = np.exp(np.minimum(0.0, 1 - relative_length))
    scores: Floats = np.where(missed[:, 0], 0.0, brevity * precisions.prod(axis=1) ** (1 / ORDER))
    return scores


def _bleu(sums: Floats, order: int) -> float:
    """Let sacreBLEU compute BLEU up to an order from a summed row [10]."""
    length, reference_length = map(int, sums[:2])
    counts = sums[2:].tolist()
    score = BLEU.compute_bleu(
        counts[:order], counts[ORDER : ORDER + order], length, reference_length, "exp", max_ngram_order=order
    )
    return float(score.score)
