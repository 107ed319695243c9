"""An answerer without a model: fast enough for files of any length, and as picklable as a real job."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wenzhen.answering.answer import Answer
from wenzhen.answering.chunks import Job
from wenzhen.errors import UsageError

# A question that ends the process that is asked it.
DEADLY = "死"


class Echo:
    """Answers with the question; an empty one is refused."""

    def normalize(self, question: str) -> str:
        if not question.strip():
            raise UsageError("the question is empty")
        return question.strip()

    def answer_all(self, questions: list[str], decoding: object, batch_size: int) -> Iterator[tuple[int, Answer]]:
        for number in reversed(range(len(questions))):
            if questions[number] == DEADLY:
                os.kill(os.getpid(), signal.SIGKILL)
            yield number, Answer(questions[number], text=f"答：{questions[number]}")


@dataclass(frozen=True)
class EchoJob(Job):
    """Has four questions echoed at a time; every process leaves its id in `folder`, if there is one."""

    folder: Path = Path("nowhere")
    batch_size: int = 1
    model: str = "echo"
    seconds: float = 0.0

    def start(self) -> Any:
        if self.model == "damaged":
            raise UsageError("the model is damaged")
        if self.folder.is_dir():
            (self.folder / str(os.getpid())).touch()
        return Slow(self.seconds) if self.seconds else Echo()

    def key(self) -> dict[str, Any]:
        return {"model": self.model}


class Slow(Echo):
    """Takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def answer_all(self, *arguments: Any) -> Iterator[tuple[int, Answer]]:
        time.sleep(self.seconds)
        return super().answer_all(*arguments)
