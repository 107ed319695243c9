"""Leaked questions against hand cases, laws and similarities counted pair by pair."""

import random

import numpy as np
import pytest

from wenzhen.evaluation.leakage import leaked

CHARACTERS = [chr(code) for code in range(0x4E00, 0x4E00 + 2_000)]
LONG = "".join(CHARACTERS[:60])


def grams(text):
    return {text[start : start + 5] for start in range(len(text) - 4)}


def jaccard(one, other):
    return len(grams(one) & grams(other)) / len(grams(one) | grams(other))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("胃痛两天了怎么办", True),
        ("胃痛，两天了。怎么办？", True),
        (" 胃痛两天了\n怎么办！！", True),
        ("头痛两天了怎么办", False),
        ("胃痛", False),
        ("做过ct吗", True),
        ("做过Ct 吗?", True),
        ("", False),
        ("？？", False),
    ],
)
def test_equal_but_for_punctuation_white_space_and_case(question, expected):
    assert leaked(["胃痛两天了怎么办", "做过CT吗"], [question]).tolist() == [expected]


def test_nearly_equal_means_a_jaccard_similarity_of_five_characters_of_four_fifths():
    # 56 runs of 5 characters; one changed character at an end costs one of them, one in the middle five.
    near, far = LONG[:-1] + "好", LONG[:10] + "好" + LONG[11:30] + "好" + LONG[31:]
    assert jaccard(LONG, near) == 55 / 57 and jaccard(LONG, far) == 46 / 66
    assert leaked([LONG], [near, far]).tolist() == [True, False]


def test_what_is_like_a_leaked_question_is_leaked():
    # Each shares 48 of 56 runs with the next, 48 / 64 = 0.75; with the one between them it is 52 / 60.
    texts = ["".join(CHARACTERS[start : start + 60]) for start in (0, 4, 8)]
    assert jaccard(texts[0], texts[1]) == 52 / 60 and jaccard(texts[0], texts[2]) == 48 / 64
    assert leaked(texts[:1], texts[2:]).tolist() == [False]
    assert leaked(texts[:1], texts[1:]).tolist() == [True, True]


def test_questions_that_are_alike_among_themselves_are_not_leaked():
    assert leaked(["胃痛"], [LONG, LONG, LONG[:-1]]).tolist() == [False] * 3


def test_agrees_with_similarities_counted_pair_by_pair():
    rng = random.Random(0)
    train = ["".join(rng.sample(CHARACTERS, 40)) for _ in range(60)]
    questions = []
    for text in train[:40]:
        changed = list(text)
        for place in rng.sample(range(40), rng.choice([0, 1, 2, 6])):
            changed[place] = "𠮷"
        questions.append("".join(changed))
    expected = [max(jaccard(text, question) for text in train) for question in questions]
    # At 0.9 a near-duplicate is found with probability 0.9999, and none below 0.8 is.
    for is_leaked, similarity in zip(leaked(train, questions), expected, strict=True):
        if not 0.8 <= similarity < 0.9:
            assert is_leaked == (similarity >= 0.9)
    assert len({similarity >= 0.8 for similarity in expected}) == 2


def test_order_and_repetition_of_the_training_questions_make_no_difference():
    train = ["".join(CHARACTERS[start : start + 30]) for start in range(0, 600, 30)]
    questions = [train[3], train[5][:-1], train[7][::-1], "头痛", "头痛"]
    found = leaked(train, questions)
    assert found.tolist() == [True, True, False, False, False]
    assert (leaked(train[::-1] * 2, questions) == found).all()


@pytest.mark.parametrize(
    ("train", "questions", "expected"),
    [
        ([], ["胃痛", ""], [False, False]),
        (["胃痛"], [], []),
        ([], [], []),
        ([""], ["", "无", "胃痛"], [True, True, False]),
        (["？"], ["？", "！"], [True, False]),
        (["胃"], ["胃", "头", "\U0001f600"], [True, False, False]),
    ],
)
def test_odd_texts(train, questions, expected):
    found = leaked(train, questions)
    assert found.dtype == np.bool_ and found.tolist() == expected
