"""Recall of facts against values counted by hand."""

import pytest

from wenzhen.evaluation.metrics import FactRecall


def test_recall_is_of_the_facts_of_the_real_answer() -> None:
    facts = ["少吃盐", "多运动", "每天多运动", "早睡"]
    score = FactRecall(facts).compute(
        predictions=["要少吃盐，早睡。", "多运动。"], references=["少吃盐，每天多运动。", "没有要点。"]
    )
    # The first real answer states 少吃盐 and 每天多运动 (多运动 is part of it): one is found.
    assert score == {"fact_recall": 1 / 2}


def test_a_fact_said_twice_is_one_fact() -> None:
    assert FactRecall(["早睡", "早起"]).stated_in("早睡早起，早睡") == {"早睡", "早起"}


@pytest.mark.parametrize("facts", [[], ["少吃盐"]])
def test_recall_is_none_where_no_fact_is_stated(facts: list[str]) -> None:
    assert FactRecall(facts).compute(predictions=["早睡"], references=["早睡"]) == {"fact_recall": None}
