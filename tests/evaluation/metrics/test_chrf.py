"""chrF against sacreBLEU and a case counted by hand."""

import pytest
from answer_pairs import PAIRS, PREDICTIONS, REFERENCES
from sacrebleu.metrics import CHRF

from wenzhen.evaluation.metrics import ChrF


def test_is_sacrebleus() -> None:
    chrf = CHRF()
    expected = chrf.corpus_score(PREDICTIONS, [REFERENCES]).score
    score = ChrF().compute(predictions=PREDICTIONS, references=REFERENCES)
    assert score == {"chrf": pytest.approx(expected, rel=1e-12), "chrf_signature": str(chrf.get_signature())}


def test_is_sacrebleus_on_every_answer_alone() -> None:
    metric, chrf = ChrF(), CHRF()
    expected = [chrf.corpus_score([prediction], [[reference]]).score for prediction, reference in PAIRS]
    values = metric.values(metric.statistics(PREDICTIONS, REFERENCES))["chrf"]
    assert values.tolist() == pytest.approx(expected, rel=1e-12)


def test_a_case_counted_by_hand() -> None:
    # 3 of 4 characters, 2 of 3 pairs and 1 of 2 triples of the answer match, and all of the reference, which is too
    # short for longer n-grams: they do not count.
    score = ChrF().compute(predictions=["少吃盐了"], references=["少吃盐"])
    precision, recall = (3 / 4 + 2 / 3 + 1 / 2) / 3, 1
    assert score["chrf"] == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))
