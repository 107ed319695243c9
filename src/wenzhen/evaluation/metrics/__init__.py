"""Metrics over generated answers: `evaluate.Metric` classes that need no download, each key with its tokenization.

Make one and call `compute(predictions=…, references=…)`. Scores that the literature gives in percent (BLEU, ROUGE,
chrF) go from 0 to 100, shares from 0 to 1. Those that are sums over answers (`SumMetric`) also give each answer's
`statistics`, and `values` of any rows of them added up: a department's, or a bootstrap sample's.
"""

from collections.abc import Sequence

from wenzhen.evaluation.metrics.base import AnswerMetric, SumMetric
from wenzhen.evaluation.metrics.bleu import CharacterBleu, ChineseBleu, LectureBleu, PTuningBleu
from wenzhen.evaluation.metrics.chrf import ChrF
from wenzhen.evaluation.metrics.diversity import CharacterDistinct, LengthRatio, Repetitive, is_repetitive
from wenzhen.evaluation.metrics.facts import FactRecall
from wenzhen.evaluation.metrics.rouge import CharacterRouge, WordRouge

__all__ = [
    "AnswerMetric",
    "CharacterBleu",
    "CharacterDistinct",
    "CharacterRouge",
    "ChineseBleu",
    "ChrF",
    "FactRecall",
    "LectureBleu",
    "LengthRatio",
    "PTuningBleu",
    "Repetitive",
    "SumMetric",
    "WordRouge",
    "is_repetitive",
    "make_metrics",
]


def make_metrics(facts: Sequence[str]) -> list[AnswerMetric]:
    """Make every metric over answers, those that are sums over answers first."""
    return [
        CharacterBleu(),
        ChineseBleu(),
        LectureBleu(),
        PTuningBleu(),
        ChrF(),
        CharacterRouge(),
        WordRouge(),
        Repetitive(),
        LengthRatio(),
        FactRecall(facts),
        CharacterDistinct(),
    ]
