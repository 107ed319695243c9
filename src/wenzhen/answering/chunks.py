"""What one process does of a long job: it answers some questions at a time, as lines of a file."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wenzhen.answering.answer import Answer
from wenzhen.answering.answer_files import json_line
from wenzhen.answering.decoding import Decoding
from wenzhen.answering.question_files import Chunk, Place, Question, QuestionFile
from wenzhen.answering.safety import rules_file
from wenzhen.errors import RunError, UsageError
from wenzhen.folders import hash_file
from wenzhen.models import DEPARTMENTS, EVIDENCE
from wenzhen.models.digest import model_digest

if TYPE_CHECKING:
    from wenzhen.answering.answerer import Answerer

# Of questions answered together, which are sorted by length: enough to waste little, few enough to lose.
BATCHES = 4
# Of an answer, in a row.
FIELDS = tuple(field.name for field in fields(Answer))


@dataclass(frozen=True)
class Job:
    """How questions are to be answered, for any process to do it alike.

    Attributes:
        folder: of the model.
        decoding: None for the model's own way.
        seed: of sampling; None for other answers every time.
        with_evidence: look for evidence, where the folder has an index.
        batch_size: questions that the model answers at a time.
    """

    folder: Path
    decoding: Decoding | None = None
    seed: int | None = None
    with_evidence: bool = True
    batch_size: int = 64

    @property
    def chunk_size(self) -> int:
        """Questions answered together."""
        return BATCHES * self.batch_size

    def start(self) -> "Answerer":
        """Load the model."""
        from wenzhen.answering.answerer import Answerer

        return Answerer(self.folder, with_evidence=self.with_evidence)

    def key(self) -> dict[str, Any]:
        """Return what determines the answers, by names that a message can show."""
        index = self.folder / EVIDENCE / "meta.json"
        classifier = self.folder / DEPARTMENTS
        return {
            "version of wenzhen": metadata.version("wenzhen"),
            "model": model_digest(self.folder),
            "classifier of departments": model_digest(classifier) if classifier.is_dir() else None,
            "index of evidence": hash_file(index) if self.with_evidence and index.is_file() else None,
            "file of safety rules": hash_file(rules_file(self.folder)),
            "decoding": asdict(self.decoding) if self.decoding else None,
            "seed": self.seed,
            # What is drawn depends on what is drawn beside it.
            "batch size": None if self.seed is None else self.batch_size,
        }


class Answered(NamedTuple):
    """The lines with the answers to a chunk, how many there are and how many are errors, and the place behind it."""

    lines: bytes
    questions: int
    failed: int
    end: Place


# Answers the questions of a file behind a place, chunk by chunk, in order.
Mapper = Callable[[Job, QuestionFile, Place], Iterator[Answered]]


def answer_here(job: Job, source: QuestionFile, start: Place) -> Iterator[Answered]:
    """Answer the questions of a file behind a place in this process."""
    answerer = job.start()
    for chunk in source.chunks(job.chunk_size, start):
        yield answer_chunk(answerer, job, chunk)


def answer_chunk(answerer: "Answerer", job: Job, chunk: Chunk) -> Answered:
    """Answer some questions; one that cannot be answered gets a line with its `error`.

    What is sampled depends on the seed and on the chunk, not on what the process has answered before.

    Raises:
        RunError: the model fails, as for want of memory.
    """
    rows = [row_of(answerer, question) for question in chunk.questions]
    sound = [row for row in rows if "error" not in row]
    if job.seed is not None and answerer.engine.generation_config(job.decoding).do_sample:
        answerer.engine.seed((job.seed + chunk.first) % 2**32)
    try:
        for index, answer in answerer.answer_all([row["question"] for row in sound], job.decoding, job.batch_size):
            sound[index] |= {name: getattr(answer, name) for name in FIELDS}
    except (RuntimeError, MemoryError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RunError(
            f"the model failed at {name_of(chunk)}: {reason}; a smaller --batch-size takes less memory"
        ) from error
    lines = b"".join(map(json_line, rows))
    return Answered(lines, len(rows), len(rows) - len(sound), chunk.end)


def row_of(answerer: "Answerer", question: Question) -> dict[str, Any]:
    """Begin a question's row: with the question as the model reads it, or an `error`."""
    try:
        if question.error:
            raise UsageError(question.error)
        return {**question.identity, "question": answerer.normalize(question.text)}
    except UsageError as error:
        return {**question.identity, "question": question.text, "error": str(error)}


def name_of(chunk: Chunk) -> str:
    """Return the numbers of a chunk's questions, from 1."""
    return f"questions {chunk.first + 1:,} to {chunk.end.questions:,}"
