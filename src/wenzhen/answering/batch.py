"""Answering a file of questions, of any length: in order, and behind what is answered where an earlier run ended."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from wenzhen.answering.answer_files import AnswerFile, begun
from wenzhen.answering.chunks import Answered, Job, Mapper, answer_here
from wenzhen.answering.question_files import Place, QuestionFile
from wenzhen.errors import RunError, UsageError

# Seconds between two lines on how far it is, where there is no terminal.
LINE_EVERY = 60


def answer_file(
    job: Job, source: QuestionFile, output: Path, overwrite: bool = False, mapper: Mapper = answer_here
) -> int:
    """Answer the questions of a file as JSON lines in the same order.

    A question that cannot be answered gets a line with its `error`, and the others are answered all the same. Stopped
    or killed, the same call goes on behind the answers that there are.

    Args:
        job: what to answer with.
        source: the questions.
        output: the file to make; it appears when all are answered.
        overwrite: whether earlier answers there may be replaced.
        mapper: what answers.

    Returns:
        How many questions could not be answered.

    Raises:
        UsageError: there are no questions, the output is not free, or the model cannot be loaded.
        RunError: the disk is full, a process ended, or the questions changed meanwhile; nothing is lost.
    """
    whole = source.survey()
    if source.path and output.exists() and output.samefile(source.path):
        raise UsageError(f"the output {output} is the file of questions; name a new file")
    with begun(output, job.key(), source, overwrite) as answers, interruption_explained(answers):
        rows = shown(mapper(job, source, answers.done.end), answers.done.end.questions, whole)
        for row in rows:
            answers.add(row.lines, row.end, row.failed)
        if whole and whole != answers.done.end:
            raise RunError(
                f"{source} has changed while its questions were answered; the answers to the first "
                f"{answers.done.end.questions:,} are kept, and the same command goes on if these still are the first"
            )
        answers.publish()
    return answers.done.failed


def print_answers(job: Job, source: QuestionFile, mapper: Mapper = answer_here) -> int:
    """Print the answers to the questions of a file; see [`answer_file`]."""
    source.survey()
    failed = 0
    for row in mapper(job, source, Place()):
        sys.stdout.buffer.write(row.lines)
        sys.stdout.buffer.flush()
        failed += row.failed
    return failed


def shown(answered: Iterator[Answered], done: int, whole: Place | None) -> Iterator[Answered]:
    """Show how far it is: on a terminal a bar, elsewhere a line now and then."""
    total = whole.questions if whole else None
    if done:
        tqdm.write(f"going on behind the answers to {done:,} questions", file=sys.stderr)
    begin = said = time.monotonic()
    count = done
    with tqdm(total=total, initial=done, desc="answering", unit=" questions", smoothing=0.1, disable=None) as bar:
        for row in answered:
            yield row
            count += row.questions
            bar.update(row.questions)
            if bar.disable and (now := time.monotonic()) - said > LINE_EVERY:
                said = now
                line = tqdm.format_meter(count, total or 0, now - begin, initial=done, unit=" questions")
                tqdm.write(f"answering: {line}", file=sys.stderr)


@contextmanager
def interruption_explained(answers: AnswerFile) -> Iterator[None]:
    """Say what is kept where Ctrl-C or SIGTERM ends the block."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        kept = f"the answers to {answers.done.end.questions:,} questions are kept"
        tqdm.write(f"{kept}; the same command goes on behind them", file=sys.stderr)
        raise
