"""SIGTERM and Ctrl-C: a run stops where it can go on again."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """A run was told to stop, and has: the checkpoint of `step` is saved. `number` is the signal's."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}, whose checkpoint is saved")
        self.number, self.step = number, step


class Interruption:
    """Hears the signals that end a run. The first is only noted; a Ctrl-C after it does what it always does, at once.

    Attributes:
        number: of the first signal; 0 as long as there was none.
    """

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Note signals while the block runs; outside of the main thread they do what they always do."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.number = 0
        before = {number: signal.getsignal(number) for number in SIGNALS}
        process = os.getpid()

        def note(number: int, _: FrameType | None) -> None:
            if os.getpid() != process:
                # A process that prepares batches; it ends with the run.
                return
            received = signal.Signals(number)
            if not self.number:
                self.number = number
                # Nothing that buffers may be called here: the signal may have come in the middle of it.
                os.write(2, f"\n{received.name}: stopping after this step and its checkpoint\n".encode())
            elif received == signal.SIGINT:
                signal.signal(received, before[received])
                signal.raise_signal(received)

        for number in SIGNALS:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in SIGNALS:
                signal.signal(number, before[number])


def outlive_interruption() -> None:
    """Have a process that prepares batches leave the signal, which may come to all of a run, to the one that trains.

    It ends at the second SIGTERM: at the end of a run Python sends one, and waits.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: signal.signal(number, signal.SIG_DFL))
