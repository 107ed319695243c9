"""Programs that show a run's course in a browser, where they are installed."""

import io
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import TensorBoardCallback, TrackioCallback

from wenzhen.errors import UsageError
from wenzhen.models import TENSORBOARD


def check_tracker(name: str) -> None:
    """Refuse a tracker that is not installed.

    Raises:
        UsageError: its message says how to install it.
    """
    if name != "none" and find_spec(name) is None:
        raise UsageError(
            f"training.report_to is {name}, which is not installed; run: pip install {name}, or take "
            "training.report_to=none"
        )


def tracker(name: str, output: Path) -> list[TrainerCallback]:
    """Return what sends every logged value to a tracker, nothing for `none`.

    Args:
        name: `tensorboard`, whose files go into the output folder; `trackio`, which keeps all runs in a folder of its
            own on this machine; or `none`.
        output: the run's folder.
    """
    if name == "tensorboard":
        board = TensorBoardCallback()
        board.logging_dir = str(output / TENSORBOARD)
        return [board]
    return [Trackio()] if name == "trackio" else []


class Trackio(TrackioCallback):
    """trackio, which would speak of uploading where it writes to this machine's disk."""

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """End the run."""
        with redirect_stdout(io.StringIO()):
            super().on_train_end(*args, **kwargs)
