"""Metrics against values worked out by hand."""

import math

import pytest

from wenzhen.evaluation.metrics import (
    CharacterBleu,
    CharacterDistinct2,
    CharacterRougeL,
    FactRecall,
    Repetitive,
    answer_metrics,
    is_repetitive,
)


def test_bleu_of_a_case_counted_by_hand() -> None:
    # Against 高血压要少吃盐 the candidate shares 6 of 7 characters, 4 of 6 pairs, 3 of 5 triples, 2 of 4 quadruples.
    score = CharacterBleu().compute(predictions=["高血压要多吃盐"], references=["高血压要少吃盐"])
    assert score["bleu4_char"] == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    assert "tok:char" in score["bleu4_char_signature"]


def test_bleu_punishes_brevity() -> None:
    score = CharacterBleu().compute(predictions=["少吃盐多喝水"], references=["少吃盐多喝水早睡觉"])
    assert score["bleu4_char"] == pytest.approx(100 * math.exp(1 - 9 / 6))


def test_rouge_l_is_f1_of_the_longest_common_subsequence() -> None:
    # 高血压要吃盐 is common: 6 of 7 characters on both sides; 好 against 不 has nothing in common.
    score = CharacterRougeL().compute(predictions=["高血压要多吃盐", "好"], references=["高血压要少吃盐", "不"])
    assert score["rougeL_char"] == pytest.approx(100 * (6 / 7) / 2, abs=1e-4)


def test_rouge_l_crosses_sentences() -> None:
    score = CharacterRougeL().compute(predictions=["多喝水。早睡。"], references=["早睡。多喝水。"])
    # The longest common subsequence is 多喝水。 of 7 characters each.
    assert score["rougeL_char"] == pytest.approx(100 * 4 / 7, abs=1e-4)


def test_distinct_2_counts_over_all_answers() -> None:
    # 您好您好 has the pairs 您好, 好您, 您好; 您好 has 您好: two different ones among four.
    score = CharacterDistinct2().compute(predictions=["您好您好", "您好"], references=["", ""])
    assert score["distinct2_char"] == 2 / 4


@pytest.mark.parametrize(
    ("text", "repetitive"),
    [
        ("多喝热水多喝热水", False),
        ("多喝热水多喝热水多喝热水", True),
        ("哈哈哈哈哈", False),
        ("哈哈哈哈哈哈", True),
        ("", False),
    ],
)
def test_repetitive_means_a_4_gram_three_times(text: str, repetitive: bool) -> None:
    assert is_repetitive(text) is repetitive


def test_repetitive_is_a_share() -> None:
    score = Repetitive().compute(predictions=["好" * 6, "好", "您好", ""], references=[""] * 4)
    assert score["repetitive"] == 1 / 4


def test_fact_recall_counts_the_facts_of_the_real_answer() -> None:
    facts = ["少吃盐", "多运动", "每天多运动", "早睡"]
    score = FactRecall(facts).compute(
        predictions=["要少吃盐，早睡。", "多运动。"], references=["少吃盐，每天多运动。", "没有要点。"]
    )
    # The first real answer states 少吃盐 and 每天多运动 (多运动 is part of it): one is found.
    assert score["fact_recall"] == 1 / 2


def test_fact_recall_is_none_without_facts() -> None:
    assert FactRecall([]).compute(predictions=["早睡"], references=["早睡"]) == {"fact_recall": None}


def test_perfect_answers_and_empty_ones() -> None:
    answers = ["您好，多喝水，早睡觉。", "少吃盐。"]
    perfect = answer_metrics(answers, answers, ["少吃盐"])
    assert perfect["bleu4_char"] == pytest.approx(100)
    assert perfect["rougeL_char"] == pytest.approx(100, abs=1e-4)
    assert perfect["fact_recall"] == 1
    empty = answer_metrics(["", ""], answers, ["少吃盐"])
    assert [empty[key] for key in ("bleu4_char", "rougeL_char", "distinct2_char", "repetitive", "fact_recall")] == [
        0
    ] * 5
