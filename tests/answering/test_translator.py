"""How many questions CTranslate2 gets at a time."""

import os

import pytest

from wenzhen.answering.translator import available_cores, fitting_batch


@pytest.mark.parametrize(
    ("rows", "beams", "workers", "expected"),
    [
        (1, 1, 2, 1),
        # Either worker has half of them.
        (10, 1, 2, 5),
        (11, 1, 2, 6),
        # 32 answers grow at a time, however many beams each question has.
        (1000, 1, 2, 32),
        (1000, 4, 2, 8),
        (1000, 5, 2, 6),
        (1000, 64, 2, 1),
        (3, 1, 8, 1),
    ],
)
def test_batches_keep_every_worker_busy(rows: int, beams: int, workers: int, expected: int) -> None:
    assert fitting_batch(rows, beams, "cpu", workers) == expected


def test_a_gpu_takes_all_at_once() -> None:
    assert fitting_batch(1000, 4, "cuda", 1) == 1000


@pytest.mark.parametrize(("threads", "cores"), [("1", 1), (" 2,1", 2), ("64", 4), ("", 4), ("0", 4), ("many", 4)])
def test_no_more_cores_are_used_than_allowed(threads: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert available_cores() == cores
