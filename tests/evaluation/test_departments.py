"""What is counted of guessed departments."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import f1_score

from wenzhen.errors import UsageError
from wenzhen.evaluation.departments import (
    departments_table,
    floor_guesses,
    floor_scores,
    numbers_of,
    scores,
    wilson,
)
from wenzhen.evaluation.questions import Consultations

NAMES = ["内科", "儿科", "外科", "男科"]
REAL = np.array([0, 0, 0, 1, 1, 2])
GUESSED = np.array([0, 0, 1, 1, 2, 1])


def test_scores_are_those_counted_by_hand() -> None:
    found = scores(REAL, GUESSED, NAMES)
    assert found["confusion"] == [[2, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["departments"]["内科"] == {
        "questions": 3,
        "precision": 1,
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(0.8),
    }
    assert found["departments"]["儿科"]["precision"] == pytest.approx(1 / 3)
    assert found["departments"]["外科"] == {"questions": 1, "precision": 0, "recall": 0, "f1": 0}
    # Nobody asked for it, and it was never guessed.
    assert found["departments"]["男科"] == {"questions": 0, "precision": None, "recall": None, "f1": None}
    assert found["macro_f1"] == pytest.approx((0.8 + 0.4 + 0) / 3)


def test_macro_f1_is_that_of_another_library() -> None:
    random = np.random.default_rng(0)
    real, guessed = random.integers(4, size=(2, 200))
    assert scores(real, guessed, NAMES)["macro_f1"] == pytest.approx(f1_score(real, guessed, average="macro"))


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 7), (99, 100), (12, 12)])
def test_the_interval_is_that_of_another_library(successes: int, trials: int) -> None:
    expected = binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson(successes, trials) == pytest.approx([expected.low, expected.high], abs=1e-6)


def test_floors_guess_the_commonest_department_and_that_of_the_nearest_question() -> None:
    training = Consultations(list("abc"), ["外科", "儿科", "外科"], ["膝盖疼", "孩子发烧", "手指割伤了"], None)
    assert floor_guesses(training, ["发烧的孩子", "膝盖肿"]) == {
        "majority": ["外科", "外科"],
        "nearest_bm25": ["儿科", "外科"],
    }


def test_a_floor_says_how_much_better_the_classifier_is() -> None:
    real = np.tile([0, 1], 50)
    right, constant = floor_scores(real, real, real, NAMES), floor_scores(real, real, 0 * real, NAMES)
    assert right["difference"] == [0, 0, 0]
    value, low, high = constant["difference"]
    assert value == pytest.approx(0.5)
    # Half of a hundred answers: 0.5 ± 1.96 · 0.05.
    assert (low, high) == (pytest.approx(0.402, abs=0.03), pytest.approx(0.598, abs=0.03))
    assert "difference" not in floor_scores(real[:19], real[:19], real[:19], NAMES)


def test_an_unknown_department_is_named() -> None:
    with pytest.raises(UsageError, match="is 牙科, and the classifier knows 内科, 儿科"):
        numbers_of(["内科", "牙科"], NAMES)
    with pytest.raises(UsageError, match="is missing, and"):
        numbers_of(["内科", ""], NAMES)


def test_the_table_names_what_was_confused() -> None:
    floor = {"accuracy": 0.25, "accuracy_interval": [0.1, 0.5], "macro_f1": 0.2, "difference": [0.25, 0.05, 0.45]}
    metrics = {"model": "分诊", "split": "test", "loss": 0.7, "floors": {"majority": floor}}
    lines = departments_table({**metrics, **scores(REAL, GUESSED, NAMES)}).splitlines()
    assert lines[0] == "6 questions of the test split, loss 0.7000 nats"
    assert "+25.0 points of accuracy over the commonest department (+5.0 to +45.0)" in lines
    assert [line.split() for line in lines if line.split()[:1] == ["内科"]] == [
        ["内科", "3", "1.0000", "0.6667", "0.8000"],
        NAMES,
        ["内科", "2", "1", "0", "0"],
    ]
