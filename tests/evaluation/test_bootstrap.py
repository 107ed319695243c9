"""The bootstrap against what statistics knows of it."""

import numpy as np
import pytest

from wenzhen.evaluation.bootstrap import interval, resample, resampled_sums


def test_every_draw_has_as_many_answers() -> None:
    weights = resample(50, times=200, seed=1)
    assert weights.shape == (200, 50)
    assert set(weights.sum(axis=1)) == {50}
    # Each count is binomial: 1 on average, 0 with probability (1 - 1/50)^50.
    assert weights.mean() == 1
    assert (weights == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    assert weights.var() == pytest.approx(1 - 1 / 50, abs=0.05)


def test_draws_follow_from_the_seed() -> None:
    assert np.array_equal(resample(30, times=5), resample(30, times=5))
    assert not np.array_equal(resample(30, times=5), resample(30, times=5, seed=1))


def test_sums_are_of_the_answers_that_were_drawn() -> None:
    weights = np.array([[1, 1, 1], [0, 3, 0]], np.uint8)
    statistics = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    assert resampled_sums(weights, statistics).tolist() == [[7, 70], [6, 60]]


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    scores = np.random.default_rng(0).normal(20, 5, size=(1000, 1))
    means = resampled_sums(resample(1000, times=2000), scores)[:, 0] / 1000
    low, high = interval(means)
    error = scores.std() / np.sqrt(1000)
    assert low == pytest.approx(scores.mean() - 1.96 * error, abs=0.03)
    assert high == pytest.approx(scores.mean() + 1.96 * error, abs=0.03)


def test_pairing_takes_out_what_two_systems_share() -> None:
    hard = np.random.default_rng(0).normal(20, 5, size=(500, 1))
    weights = resample(500)
    one, other = (resampled_sums(weights, scores)[:, 0] / 500 for scores in (hard, hard + 0.5))
    assert interval(other - one) == pytest.approx((0.5, 0.5))
    assert interval(one)[1] > interval(other)[0]


def test_undefined_draws_are_left_out() -> None:
    assert interval(np.array([np.nan, 3.0, np.nan, 3.0])) == (3.0, 3.0)
    assert np.isnan(interval(np.array([np.nan, np.nan]))).all()
