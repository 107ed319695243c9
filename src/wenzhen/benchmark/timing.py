"""Comparing speeds fairly: in turn, repeatedly, with the spread."""

import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return `median`, `low` and `high`, the extremes."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "low": ordered[0], "high": ordered[-1]}


def ratio(rates: list[float], others: list[float]) -> dict[str, float]:
    """Return the spread of one rate over another, repeat by repeat."""
    return spread(rate / other for rate, other in zip(rates, others, strict=True))


def seconds_taken(run: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def alternate(runs: list[Callable[[int], object]], repeats: int) -> list[list[float]]:
    """Time several contestants in turn, so that what else the machine does meets all of them.

    Args:
        runs: each does one repeat, whose number it is given.
        repeats: rounds; each begins with another contestant.

    Returns:
        For each contestant the seconds of every repeat.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats):
        for turn in range(len(runs)):
            contestant = (repeat + turn) % len(runs)
            seconds[contestant].append(seconds_taken(partial(runs[contestant], repeat)))
    return seconds
