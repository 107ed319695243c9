"""The one kind of failure that is the user's to mend, and how a command reports it."""

import os
import signal
import sys
from collections.abc import Callable, Sequence


class UsageError(Exception):
    """A request that cannot be carried out as asked; its message says what was got, what is allowed, what to do."""


class RunError(Exception):
    """A run that was asked rightly and failed; its message says how far it came and what to do."""


def run(main: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Call a command's `main` and turn a [`UsageError`] into one line on standard error and exit code 2.

    Returns:
        `main`'s exit code; 1 when the system refused something; 2 when it was asked wrongly; 130 when interrupted.
    """
    # As Ctrl-C does, so that what stands half-written is cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return main(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read has heard enough; what Python still holds back goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (RunError, OSError) as error:
        # Disk full, no permission, and the like: the message names the file.
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
