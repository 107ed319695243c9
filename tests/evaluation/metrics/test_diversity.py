"""Distinct n-grams, repetition and length against values counted by hand."""

import pytest

from wenzhen.evaluation.metrics import CharacterDistinct, LengthRatio, Repetitive, is_repetitive


def test_distinct_counts_over_all_answers() -> None:
    # 您 and 好 among seven characters; 您好 and 好您 among the pairs 您好, 好您, 您好 and 您好.
    score = CharacterDistinct().compute(predictions=["您好您好", "您好", "好", ""], references=[""] * 4)
    assert score == {"distinct1_char": 2 / 7, "distinct2_char": 2 / 4}


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
    assert score == {"repetitive": 1 / 4}


def test_length_ratio_is_of_all_characters() -> None:
    assert LengthRatio().compute(predictions=["少吃盐", ""], references=["吃盐", "好好"]) == {"length_ratio": 3 / 4}
    assert LengthRatio().compute(predictions=["少吃盐"], references=[""]) == {"length_ratio": None}
