"""One run at a time in an output folder."""

import errno
import fcntl
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import PROCESSES as FRESH
from wenzhen.errors import UsageError
from wenzhen.recipe import Recipe
from wenzhen.training import lock
from wenzhen.training.lock import locked
from wenzhen.training.run import train

# Forked, as the processes that prepare batches are, and as quick.
PROCESSES = multiprocessing.get_context("fork")
IN_USE = "another run is at work in .*model; wait for its end, or name another output folder"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "model"


def hold(output: Path, held, end) -> None:
    with locked(output):
        held.set()
        end.wait(60)


def test_a_second_run_is_refused_until_the_first_has_ended(
    make_recipe: Callable[..., Recipe], output: Path, tmp_path: Path
) -> None:
    held, end = PROCESSES.Event(), PROCESSES.Event()
    other = PROCESSES.Process(target=hold, args=(output, held, end))
    other.start()
    assert held.wait(30)
    recipe = make_recipe(f"output={output}", "training.max_steps=1", "evaluation.examples=0")
    for words in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(UsageError, match=IN_USE):
            train(recipe, **words)
    assert not list(output.iterdir())
    # Nothing came into the folders that it made.
    end.set()
    other.join(30)
    assert not list(tmp_path.glob("runs*"))
    train(recipe)
    assert not [path for path in output.iterdir() if path.name.startswith(".")]
    train(recipe, overwrite=True)


def test_a_killed_run_holds_nothing_though_a_process_of_its_own_lives_on(output: Path) -> None:
    begun = PROCESSES.SimpleQueue()

    def run() -> None:
        with locked(output):
            worker = PROCESSES.Process(target=signal.pause)
            worker.start()
            begun.put(worker.pid)
            signal.pause()

    other = PROCESSES.Process(target=run)
    other.start()
    worker = begun.get()
    try:
        with pytest.raises(UsageError, match=IN_USE), locked(output):
            pass
        other.kill()
        # With a limit it would wait for the worker too.
        other.join()
        with locked(output):
            os.kill(worker, 0)
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_file_system_without_locks_is_no_hindrance(monkeypatch: pytest.MonkeyPatch, output: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(output):
        (output / "recipe.yaml").touch()
    assert (output / "recipe.yaml").exists()
    assert not lock.LOCKED


def be_one_of_two(rank: int, port: int, output: Path, refused) -> None:
    from accelerate import PartialState

    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in place.items()}
    PartialState(cpu=True)
    try:
        with locked(output):
            pass
    except UsageError:
        refused.release()


def test_all_processes_of_a_run_are_refused_together(output: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    refused = FRESH.Semaphore(0)
    with locked(output):
        processes = [FRESH.Process(target=be_one_of_two, args=(rank, port, output, refused)) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert refused.acquire(timeout=1) and refused.acquire(timeout=1)
