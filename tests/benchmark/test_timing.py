"""Comparing speeds: the order of turns, and the figures."""

import time

from wenzhen.benchmark.timing import alternate, ratio, spread


def test_spread_is_median_and_extremes() -> None:
    assert spread([3.0, 1.0, 10.0]) == {"median": 3.0, "low": 1.0, "high": 10.0}
    assert spread([4.0, 1.0]) == {"median": 2.5, "low": 1.0, "high": 4.0}


def test_ratio_is_taken_repeat_by_repeat() -> None:
    """The medians' ratio would be 1.5."""
    assert ratio([2.0, 30.0, 3.0], [1.0, 10.0, 2.0]) == {"median": 2.0, "low": 1.5, "high": 3.0}


def test_each_round_begins_with_another_contestant() -> None:
    turns: list[tuple[str, int]] = []
    names = ["a", "b", "c"]
    seconds = alternate([lambda repeat, name=name: turns.append((name, repeat)) for name in names], repeats=4)
    assert turns == [(name, repeat) for repeat, order in enumerate(["abc", "bca", "cab", "abc"]) for name in order]
    assert [len(own) for own in seconds] == [4, 4, 4]


def test_seconds_go_to_who_took_them() -> None:
    slow, quick = alternate([lambda _: time.sleep(0.02), lambda _: None], repeats=3)
    assert min(slow) >= 0.02
    assert max(quick) < min(slow)
