"""Waiting for what another thread does."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return when a condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
