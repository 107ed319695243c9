"""One run at a time in an output folder.

The lock is the folder's own, not that of a file in it: nothing is left behind, and the system gives it back however
the process ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from wenzhen.errors import UsageError
from wenzhen.folders import lock_folder

# The open folders that this process has locked.
LOCKED: list[int] = []


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold an output folder, which is made if need be, and goes again where nothing came into it.

    The first of a run's processes takes it for all.

    Raises:
        UsageError: another run holds it.
    """
    first = PartialState().is_main_process
    made = [folder for folder in (output, *output.parents) if first and not folder.exists()]
    lock, refused = None, [False]
    if first:
        try:
            lock = take(output)
        except BlockingIOError:
            refused = [True]
    if any(broadcast_object_list(refused)):
        raise UsageError(f"another run is at work in {output}; wait for its end, or name another output folder")
    try:
        yield
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if lock is not None:
            LOCKED.remove(lock)
            os.close(lock)


def take(folder: Path) -> int | None:
    """Lock a folder and return its descriptor; None where it cannot be made, or its file system has no locks.

    Raises:
        BlockingIOError: another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = lock_folder(folder)
    except BlockingIOError:
        raise
    except OSError:
        # What is wrong with it is said where it is looked into.
        return None
    if descriptor is not None:
        LOCKED.append(descriptor)
    return descriptor


def leave_to_parent() -> None:
    """Have a process that prepares batches hold nothing: it may outlive a run that was killed."""
    while LOCKED:
        os.close(LOCKED.pop())


os.register_at_fork(after_in_child=leave_to_parent)
