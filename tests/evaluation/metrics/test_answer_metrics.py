"""Laws of all metrics together."""

import numpy as np
import pytest
from answer_pairs import PREDICTIONS, REFERENCES

from wenzhen.evaluation.metrics import SumMetric, make_metrics

ANSWERS = ["您好，多喝水，早睡觉。", "少吃盐。"]
SUM_METRICS = [metric for metric in make_metrics(["多喝", "少吃盐"]) if isinstance(metric, SumMetric)]
SCORES = [
    *(f"bleu{order}_{tokenization}" for tokenization in ("char", "zh") for order in (1, 2, 3, 4)),
    *(f"rouge{kind}_{tokenization}" for tokenization in ("char", "word") for kind in "12L"),
    *("bleu4_lecture", "bleu4_ptuning", "chrf"),
]


def answer_metrics(predictions: list[str], references: list[str], facts: list[str]) -> dict[str, float | str | None]:
    """Compute every metric over texts."""
    results: dict[str, float | str | None] = {}
    for metric in make_metrics(facts):
        results |= metric.compute(predictions=predictions, references=references)
    return results


def test_perfect_answers_score_100_and_empty_ones_0() -> None:
    perfect = answer_metrics(ANSWERS, ANSWERS, ["少吃盐"])
    assert {key: perfect[key] for key in SCORES} == {key: pytest.approx(100, abs=1e-4) for key in SCORES}
    assert perfect["fact_recall"] == perfect["length_ratio"] == 1
    empty = answer_metrics(["", ""], ANSWERS, ["少吃盐"])
    others = ("fact_recall", "length_ratio", "distinct1_char", "distinct2_char", "repetitive")
    assert all(empty[key] == 0 for key in (*SCORES, *others))


def test_no_metric_misses_what_chinese_texts_share() -> None:
    scores = answer_metrics(["每天都要少吃盐多喝水。"], ["医生说要少吃盐多喝水哦"], [])
    assert all(float(scores[key] or 0) > 10 for key in SCORES)


@pytest.mark.parametrize("metric", SUM_METRICS, ids=lambda metric: type(metric).__name__)
def test_added_rows_are_the_metric_of_their_answers(metric: SumMetric) -> None:
    statistics = metric.statistics(PREDICTIONS, REFERENCES)
    assert len(statistics) == len(PREDICTIONS)
    draws = np.random.default_rng(0).integers(len(PREDICTIONS), size=(2, 3, 40))
    values = metric.values(statistics[draws].sum(axis=-2))
    for place in np.ndindex(2, 3):
        drawn = draws[place]
        expected = metric.compute(
            predictions=[PREDICTIONS[row] for row in drawn], references=[REFERENCES[row] for row in drawn]
        )
        for key, value in values.items():
            assert value.shape == (2, 3)
            undefined = expected[key] is None
            assert value[place] == pytest.approx(np.nan if undefined else expected[key], nan_ok=True)


@pytest.mark.parametrize("metric", SUM_METRICS, ids=lambda metric: type(metric).__name__)
def test_no_answers_add_up_to_nothing_and_raise_nothing(metric: SumMetric) -> None:
    sums = metric.statistics([], []).sum(axis=0)
    assert sums.shape == metric.statistics(["好"], ["好"])[0].shape
    assert all(np.isnan(value) or value == 0 for value in metric.values(sums).values())


def test_every_metric_states_what_it_counts_and_its_scale() -> None:
    for metric in make_metrics([]):
        assert "0 to 1" in metric.description or "1 is as long" in metric.description
