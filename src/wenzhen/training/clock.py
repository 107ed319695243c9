"""How long a training took, in the folder that it leaves."""

import json
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wenzhen.folders import replace_file
from wenzhen.models import TRAINING_TIME


class TrainingClock(TrainerCallback):
    """Writes the seconds between first and last step to `training_time.json`, measuring and saving included.

    What a killed run did behind its last checkpoint is done again and counted once.

    Args:
        folder: the model folder.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / TRAINING_TIME
        self.before = self.start = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start, behind what a resumed run took before."""
        if state.global_step and self.file.is_file():
            self.before = json.loads(self.file.read_text(encoding="utf-8"))["seconds"]
        self.start = time.perf_counter()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write the time of what a checkpoint holds."""
        self.write(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the whole time."""
        self.write(state)

    def write(self, state: TrainerState) -> None:
        """Write the time so far."""
        if state.is_world_process_zero:
            seconds = round(self.before + time.perf_counter() - self.start, 1)
            with replace_file(self.file) as draft:
                draft.write_text(json.dumps({"seconds": seconds}) + "\n", encoding="utf-8")
