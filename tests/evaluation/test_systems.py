"""Systems against each other: intervals, differences and what is said of them."""

import random

import numpy as np
import pytest

from wenzhen.evaluation.comparison import Comparison, Difference, Verdict, floor_predictions
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.predictions import Prediction
from wenzhen.evaluation.questions import Consultations

ANSWERS = [f"第{number}天要注意休息，多喝{number}杯水，少吃{number}克盐。" for number in range(40)]


def predictions(answers: list[str]) -> list[Prediction]:
    return [
        Prediction(str(row), "内科" if row < 30 else "外科", "问", real, answer)
        for row, (real, answer) in enumerate(zip(ANSWERS, answers, strict=True))
    ]


def worse(answers: list[str], share: float, seed: int) -> list[str]:
    """Put another text in the place of some answers."""
    drawn = random.Random(seed)
    return [answer if drawn.random() > share else "不知道，请去医院看一看。" for answer in answers]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    systems = {"right": ANSWERS, "good": worse(ANSWERS, 0.3, 1), "alike": worse(ANSWERS, 0.3, 2)}
    leaks = np.arange(40) % 4 == 0
    return Comparison({name: predictions(answers) for name, answers in systems.items()}, ["休息"], leaks)


def test_intervals_hold_the_value_and_narrow_to_it_where_nothing_varies(comparison: Comparison) -> None:
    intervals = comparison.intervals("good")
    overall = comparison.scores["good"].overall
    for name, (low, high) in intervals.items():
        assert low <= overall[name] <= high, name
    assert {"rougeL_char", "bleu4_char", "chrf", "fact_recall"} < intervals.keys()
    # Which different pairs a resample has says nothing of another corpus.
    assert "distinct2_char" not in intervals
    assert comparison.intervals("right")["fact_recall"] == (1.0, 1.0)


def test_a_mean_has_the_interval_of_the_normal_approximation(comparison: Comparison) -> None:
    """Fact recall is a mean of 40 zeros and ones here."""
    share = comparison.scores["good"].overall["fact_recall"]
    half = 1.96 * (share * (1 - share) / 40) ** 0.5
    low, high = comparison.intervals("good")["fact_recall"]
    assert low == pytest.approx(share - half, abs=0.03)
    assert high == pytest.approx(share + half, abs=0.03)


def test_verdicts_tell_better_worse_and_undecided(comparison: Comparison) -> None:
    better = comparison.verdict("right", "good")
    assert [difference.sign for difference in better.differences.values()] == [1] * 5
    assert better.line == "right beats good on 5 of 5 measures (95 %)"
    assert comparison.verdict("good", "right").line == "good beats right on 0 of 5 measures, loses on 5 (95 %)"
    assert comparison.verdict("good", "alike").line == "good beats alike on 0 of 5 measures, undecided on 5 (95 %)"
    for name, difference in better.differences.items():
        back = comparison.verdict("good", "right").differences[name]
        assert (back.value, back.low, back.high) == (-difference.value, -difference.high, -difference.low)


def test_a_floor_is_named_by_what_it_is() -> None:
    (name, meaning), *_ = FLOORS.items()
    verdict = Verdict("m", name, {"a": Difference(1.0, 0.5, 1.5), "b": Difference(0.0, -1.0, 1.0)})
    assert verdict.line == f"m beats {meaning} on 1 of 2 measures, undecided on 1 (95 %)"


def test_departments_and_leaks_are_parts_of_the_questions(comparison: Comparison) -> None:
    departments = comparison.departments("good")
    assert list(departments) == ["内科", "外科"]
    assert [metrics["questions"] for metrics in departments.values()] == [30, 10]
    assert departments["外科"] == comparison.scores["good"].of(range(30, 40))
    check = comparison.leak_check("good")
    assert check is not None
    assert check == {
        "with": comparison.scores["good"].of(range(0, 40, 4)),
        "without": comparison.scores["good"].of([row for row in range(40) if row % 4]),
    }


def test_a_few_questions_tell_nothing_for_sure() -> None:
    few = Comparison({name: predictions(answers)[:19] for name, answers in (("a", ANSWERS), ("b", ["无"] * 40))})
    assert few.intervals("a") == {}
    assert few.verdict("a", "b").differences == {}
    enough = Comparison({name: predictions(answers)[:20] for name, answers in (("a", ANSWERS), ("b", ["无"] * 40))})
    assert enough.verdict("a", "b").score[0] == len(enough.verdict("a", "b").differences) == 4


def test_one_department_is_no_table_and_no_training_no_leak_check() -> None:
    rows = [Prediction("1", "内科", "问", "答", "答"), Prediction("2", "内科", "问", "答", "无")]
    comparison = Comparison({"one": rows})
    assert comparison.departments("one") == {}
    assert comparison.leak_check("one") is None
    assert Comparison({"one": rows}, leaks=np.zeros(2, bool)).leak_check("one") == {
        "without": comparison.scores["one"].overall
    }


def test_floors_answer_what_is_asked_from_what_was_learned() -> None:
    training = Consultations(["1", "2"], ["内科", "内科"], ["头疼怎么办？", "咳嗽三天了"], ["休息。", "喝水。"])
    asked = Consultations(["3"], ["外科"], ["一直咳嗽"], ["去医院。"])
    floors = floor_predictions(training, asked)
    assert floors.keys() == FLOORS.keys()
    assert floors["nearest_bm25"] == [Prediction("3", "外科", "一直咳嗽", "去医院。", "喝水。")]
    assert floor_predictions(None, asked) == {}
    assert floor_predictions(training, Consultations(["3"], [""], ["一直咳嗽"], None)) == {}
