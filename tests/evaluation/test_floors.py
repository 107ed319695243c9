"""Floors against a BM25 and a TF-IDF of their own, hand cases and laws."""

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from wenzhen.errors import UsageError
from wenzhen.evaluation import floors as module
from wenzhen.evaluation.floors import CONSTANT_ANSWER, FLOORS, floor_answers, nearest_bm25, nearest_tfidf

NEAREST = pytest.mark.parametrize("nearest", [nearest_bm25, nearest_tfidf])
LEARNING = pytest.mark.parametrize("name", ["random", "nearest_bm25", "nearest_tfidf"])


def make_texts(number, seed, alphabet="胃头腹痛热咳嗽怎么办吃药。AbC"):
    """Return random texts of 3 to 20 characters, of which some are frequent and some are rare."""
    rng = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(alphabet) + 1)]
    return ["".join(rng.choices(alphabet, weights, k=rng.randint(3, 20))) for _ in range(number)]


def bm25(train, question):
    """Score every training text as Lucene does (Kamphuis et al. 2020, table 1), with k1 = 1.5 and b = 0.75."""
    train = [text.lower() for text in train]
    average = sum(map(len, train)) / len(train)
    scores = [0.0] * len(train)
    for character in question.lower():
        holding = sum(character in text for text in train)
        idf = math.log(1 + (len(train) - holding + 0.5) / (holding + 0.5))
        for row, text in enumerate(train):
            times = text.count(character)
            scores[row] += idf * times / (times + 1.5 * (1 - 0.75 + 0.75 * len(text) / average))
    return scores


def tfidf(train, question):
    """Compute the cosine to every training text, with smoothed idf, over all runs of 1 to 3 characters."""

    def grams(text):
        text = text.lower()
        return Counter(text[start : start + size] for size in (1, 2, 3) for start in range(len(text) - size + 1))

    counts = [grams(text) for text in train]
    holding = Counter(gram for count in counts for gram in count)
    idf = {gram: math.log((1 + len(train)) / (1 + number)) + 1 for gram, number in holding.items()}

    def unit_vector(count):
        vector = {gram: number * idf[gram] for gram, number in count.items() if gram in idf}
        length = math.hypot(*vector.values())
        return {gram: value / length for gram, value in vector.items()}

    asked = unit_vector(grams(question))
    return [sum(value * asked.get(gram, 0.0) for gram, value in unit_vector(count).items()) for count in counts]


@pytest.mark.parametrize(("nearest", "score"), [(nearest_bm25, bm25), (nearest_tfidf, tfidf)])
@pytest.mark.parametrize("blocks", [(10_000, 100), (7, 3)])
def test_the_nearest_question_has_the_highest_score(nearest, score, blocks, monkeypatch):
    monkeypatch.setattr(module, "_TRAIN_BLOCK", blocks[0])
    monkeypatch.setattr(module, "_BLOCK", blocks[1])
    train, questions = make_texts(60, seed=0), make_texts(40, seed=1)
    for question, row in zip(questions, nearest(train, questions), strict=True):
        scores = score(train, question)
        assert scores[row] == pytest.approx(max(scores), rel=1e-5)
        # The first of the best, but for what rounding tells apart.
        assert all(other < max(scores) * (1 - 1e-9) for other in scores[:row])


@NEAREST
def test_by_hand(nearest):
    train = ["头痛怎么办", "胃痛怎么办", "发烧怎么办"]
    # Every text has 怎么办, two have 痛, so that 胃 decides, and where there is no 胃, 痛.
    assert nearest(train, ["胃疼吃什么药", "痛", "烧", "怎么办"]).tolist() == [1, 0, 2, 0]


def test_tfidf_hears_the_order_of_characters_and_bm25_does_not():
    train = ["痛头", "头痛"]
    assert nearest_tfidf(train, ["头痛"]).tolist() == [1]
    assert nearest_bm25(train, ["头痛"]).tolist() == [0]


@NEAREST
def test_case_makes_no_difference(nearest):
    assert nearest(["胃痛", "查ct吗", "查CT吗"], ["做了CT", "ct", "Ct吗"]).tolist() == [1, 1, 1]


@NEAREST
@pytest.mark.parametrize("block", [10_000, 2])
def test_the_first_of_equal_questions_answers(nearest, block, monkeypatch):
    monkeypatch.setattr(module, "_TRAIN_BLOCK", block)
    train = ["发烧", "胃痛", "发烧", "胃痛", "胃痛", "发烧"]
    assert nearest(train, ["胃痛", "发烧", "胃"]).tolist() == [1, 0, 1]


@NEAREST
def test_a_question_of_the_training_data_finds_itself(nearest):
    # Of one length, none of which holds a character twice, so that no other text can have a higher BM25.
    train = ["".join(text) for text in itertools.combinations("胃头腹痛热咳嗽怎", 5)]
    assert nearest(train, train).tolist() == list(range(len(train)))


@NEAREST
def test_order_of_the_training_data_decides_nothing_but_ties(nearest):
    train, questions = list(dict.fromkeys(make_texts(80, seed=2))), make_texts(30, seed=3)
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = [train[row] for row in order]
    score = bm25 if nearest is nearest_bm25 else tfidf
    found = zip(questions, nearest(train, questions), order[nearest(shuffled, questions)], strict=True)
    for question, row, other in found:
        scores = score(train, question)
        assert row == other or scores[row] == pytest.approx(scores[other], rel=1e-6)


@NEAREST
def test_questions_are_answered_each_by_itself(nearest):
    train, questions = make_texts(30, seed=4), make_texts(12, seed=5)
    assert nearest(train, questions).tolist() == [int(nearest(train, [question])[0]) for question in questions]


@NEAREST
@pytest.mark.parametrize("question", ["", " ", "\n", "xyz", "\U0001f600", "𠮷"])
def test_what_shares_nothing_gets_the_first_answer(nearest, question):
    assert nearest(["胃痛", "头痛"], [question, "头"]).tolist() == [0, 1]


@NEAREST
def test_odd_training_questions(nearest):
    train = ["", "\U0001f600", "  ", "胃痛", "𠮷"]
    assert nearest(train, ["胃痛", "\U0001f600", "𠮷", ""]).tolist() == [3, 1, 4, 0]


@NEAREST
def test_one_training_question(nearest):
    assert nearest(["胃"], ["胃", "头"]).tolist() == [0, 0]


def test_answers_are_those_of_the_nearest_questions():
    train = ["胃痛怎么办", "头痛怎么办"], ["喝粥", "休息"]
    for name in ("nearest_bm25", "nearest_tfidf"):
        assert floor_answers(name, *train, ["头好痛", "胃好痛"]) == ["休息", "喝粥"]


def test_constant_answers_everything_the_same_and_needs_no_training():
    assert floor_answers("constant", [], [], ["胃痛", ""]) == [CONSTANT_ANSWER] * 2
    assert CONSTANT_ANSWER.startswith("您好") and CONSTANT_ANSWER.endswith("！")
    # What is compared as a floor must itself be safe to say: it sends to a doctor and names no medicine.
    assert "就诊" in CONSTANT_ANSWER and "\n" not in CONSTANT_ANSWER


def test_random_answers_are_drawn_evenly_from_the_seed():
    answers = [f"答{number}" for number in range(5)]
    questions = ["问"] * 10_000
    drawn = floor_answers("random", ["问"] * 5, answers, questions)
    counts = Counter(drawn)
    # 2,000 each, with a standard deviation of 40.
    assert set(counts) == set(answers) and all(abs(number - 2_000) < 200 for number in counts.values())
    assert drawn == floor_answers("random", ["问"] * 5, answers, questions, seed=0)
    assert drawn != floor_answers("random", ["问"] * 5, answers, questions, seed=1)
    # Fewer questions get the same answers.
    assert floor_answers("random", ["问"] * 5, answers, questions[:7]) == drawn[:7]


@pytest.mark.parametrize("name", FLOORS)
def test_no_question_has_no_answer(name):
    assert floor_answers(name, ["胃痛"], ["喝粥"], []) == []


@LEARNING
@pytest.mark.parametrize("train", [[], ["", ""]])
def test_nothing_to_learn_from_is_told(name, train):
    with pytest.raises(UsageError, match=f"`{name}`.*no training question"):
        floor_answers(name, train, ["答"] * len(train), ["胃痛"])


def test_an_unknown_floor_is_told_with_those_there_are():
    with pytest.raises(UsageError, match="`nearest`; there are: constant, random, nearest_bm25, nearest_tfidf"):
        floor_answers("nearest", ["胃痛"], ["喝粥"], ["头痛"])
