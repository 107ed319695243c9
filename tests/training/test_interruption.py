"""Signals are noted first and obeyed second."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from wenzhen.training.interruption import Interruption, outlive_interruption


@pytest.fixture
def obeyed_ctrl_c() -> Iterator[None]:
    """Have Ctrl-C do what it does in a terminal: a command in the background inherits that it does nothing."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("obeyed_ctrl_c")
def test_the_first_signal_is_noted_and_a_second_ctrl_c_stops(capfd: pytest.CaptureFixture[str]) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    interruption = Interruption()
    with pytest.raises(KeyboardInterrupt), interruption.heard():
        signal.raise_signal(signal.SIGINT)
        assert interruption.number == signal.SIGINT
        assert capfd.readouterr().err == "\nSIGINT: stopping after this step and its checkpoint\n"
        # A scheduler's SIGTERM, which it may send more than once, is no reason to lose the step.
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second Ctrl-C was not obeyed")
    assert {number: signal.getsignal(number) for number in before} == before
    assert interruption.number == signal.SIGINT


def test_outside_of_the_main_thread_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    heard = []

    def listen() -> None:
        with Interruption().heard():
            heard.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert heard == [before]


def test_a_forked_process_notes_nothing() -> None:
    interruption = Interruption()
    with interruption.heard():
        child = os.fork()
        if not child:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            os._exit(3 + interruption.number)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def prepare_batches(started) -> None:
    outlive_interruption()
    started.set()
    signal.pause()
    signal.pause()
    signal.pause()


def test_a_process_that_prepares_batches_ends_at_the_second_sigterm() -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    worker = context.Process(target=prepare_batches, args=(started,))
    worker.start()
    assert started.wait(30)
    os.kill(worker.pid, signal.SIGINT)
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(0.2)
    assert worker.is_alive()
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(30)
    assert worker.exitcode == -signal.SIGTERM
