"""A file of answers that outlives its run: killed at any time, it goes on where it was.

Until the last question is answered the answers stand in `.NAME.partial` beside the file NAME, and in `.NAME.journal`
what they depend on and, a line for each chunk of them, how far they go.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from wenzhen.answering.question_files import BLOCK, Place, QuestionFile
from wenzhen.errors import RunError, UsageError


class Done(NamedTuple):
    """What is answered: the questions before a place, in so many bytes, `failed` of them with an error."""

    end: Place = Place()
    size: int = 0
    failed: int = 0


class AnswerFile:
    """A file of answers in the making; [`begun`] makes it.

    Attributes:
        output: the file.
        done: what is answered.
    """

    def __init__(self, output: Path, partial: FileIO, journal: FileIO) -> None:
        self.output, self.partial, self.journal = output, partial, journal
        self.done = Done()

    def add(self, lines: bytes, end: Place, failed: int) -> None:
        """Add the answers to the questions before a place, `failed` of them with an error.

        Raises:
            RunError: the disk is full or the like; what was added before is kept.
        """
        done = Done(end, self.done.size + len(lines), self.done.failed + failed)
        try:
            write_all(self.partial, lines)
            # After a loss of power the journal must not know of more than there is.
            os.fsync(self.partial)
            write_all(self.journal, json_line(done))
        except OSError as error:
            raise RunError(
                f"{self.output.parent} takes no more: {error.strerror}; the answers to {self.done.end.questions:,} "
                "questions are kept, and the same command goes on behind them"
            ) from error
        self.done = done

    def take_up(self, key: Mapping[str, Any], source: QuestionFile, overwrite: bool) -> None:
        """Go on behind the answers of an earlier run that depend on the same, and cut off what was torn.

        Raises:
            UsageError: they depend on something else or answer other questions, and `overwrite` is off.
        """
        header = json_line(key)
        self.journal.seek(0)
        first, *rest = self.journal.read().splitlines(keepends=True) or [b""]
        if first.endswith(b"\n") and first != header and not overwrite:
            raise UsageError(
                f"the answers begun for {self.output} came about with another {differences(first, key)}; repeat the "
                "command that began them, or add --overwrite to begin anew"
            )
        known = len(header) if first == header else 0
        for line in rest if known else []:
            done = read_done(line)
            if done is None or not self.goes_to(done):
                break
            self.done = done
            known += len(line)
        if not source.begins_with(self.done.end):
            if not overwrite:
                raise UsageError(
                    f"the first {self.done.end.questions:,} questions of {source} are not those whose answers are "
                    f"begun for {self.output}; give the same questions again, or add --overwrite to begin anew"
                )
            self.done, known = Done(), len(header)
        cut(self.partial, self.done.size)
        cut(self.journal, known)
        if not known:
            write_all(self.journal, header)

    def goes_to(self, done: Done) -> bool:
        """Tell whether the answers between what is done and what a journal notes next are whole lines, as many as it
        says."""
        self.partial.seek(self.done.size)
        lines, last = self.done.end.questions, b""
        while (missing := done.size - self.partial.tell()) > 0 and (block := self.partial.read(min(BLOCK, missing))):
            lines, last = lines + block.count(b"\n"), block
        return missing == 0 and last.endswith(b"\n") and lines == done.end.questions

    def publish(self) -> None:
        """Give the answers their name."""
        Path(self.partial.name).replace(self.output)
        Path(self.journal.name).unlink()


@contextmanager
def begun(output: Path, key: Mapping[str, Any], source: QuestionFile, overwrite: bool) -> Iterator[AnswerFile]:
    """Yield a file of answers, with those in it that an earlier run left.

    Args:
        output: the file to make.
        key: what the answers depend on besides the questions.
        source: the questions.
        overwrite: whether earlier answers may be replaced, complete ones or such as are begun to
            other questions or depend on something else.

    Raises:
        UsageError: the output is not free, or another process is at work on it.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    partial, journal = (output.with_name(f".{output.name}.{end}") for end in ("partial", "journal"))
    with journal.open("a+b", buffering=0) as notes:
        lock(notes, output)
        with partial.open("a+b", buffering=0) as answers:
            file = AnswerFile(output, answers, notes)
            try:
                check_output(output, overwrite)
                file.take_up(key, source, overwrite)
                yield file
            finally:
                # What holds nothing tells nobody anything.
                if not os.fstat(answers.fileno()).st_size:
                    partial.unlink(missing_ok=True)
                    journal.unlink(missing_ok=True)


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse an output that would destroy something."""
    if not output.exists():
        return
    if not output.is_file():
        raise UsageError(f"the output {output} is no file; name a new file")
    if not overwrite:
        raise UsageError(f"the output {output} exists; name a new file, or add --overwrite to replace it")
    with output.open(encoding="utf-8", errors="replace") as file:
        line = file.readline(2**20)
    with suppress(ValueError, RecursionError):
        if isinstance(row := json.loads(line), dict) and "question" in row:
            return
    if line:
        raise UsageError(f"the output {output} holds something else than answers; name a new file")


def lock(journal: FileIO, output: Path) -> None:
    """Keep other processes from the same output until the journal is closed, where its file system has locks."""
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        busy = False
    except BlockingIOError:
        busy = True
    except OSError:
        return
    # One that has just ended has taken the journal away.
    if busy or not os.fstat(journal.fileno()).st_nlink:
        raise UsageError(f"another process writes {output}; wait for its end, or name another output")


def read_done(line: bytes) -> Done | None:
    """Read a line of a journal; None where it is torn."""
    try:
        (questions, read, digest), size, failed = json.loads(line if line.endswith(b"\n") else b"")
    except (ValueError, TypeError, RecursionError):
        return None
    counts = all(type(count) is int and count >= 0 for count in (questions, read, size, failed))
    return Done(Place(questions, read, digest), size, failed) if counts and isinstance(digest, str) else None


def differences(header: bytes, key: Mapping[str, Any]) -> str:
    """Name what answers depend on that is not as in a journal's header."""
    try:
        other = dict(json.loads(header))
    except (ValueError, TypeError):
        other = {}
    return " and another ".join(name for name in key if other.get(name) != key[name])


def cut(file: FileIO, size: int) -> None:
    """Cut a file, and go to its end."""
    file.truncate(size)
    file.seek(size)


def write_all(file: FileIO, content: bytes) -> None:
    """Write to an unbuffered file, which may take less than all at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def json_line(content: Any) -> bytes:
    """Write JSON on a line: a dataclass as an object, halves of surrogate pairs, which no encoding has, escaped."""
    line = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=asdict) + "\n"
    return line.encode(errors="backslashreplace")
