"""Several processes that answer the questions of one file, each with a model of its own."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from threading import RLock
from types import TracebackType
from typing import Self

from tqdm import tqdm

from wenzhen.answering.chunks import Answered, Job, answer_chunk, name_of
from wenzhen.answering.question_files import Chunk, Place, QuestionFile
from wenzhen.answering.translator import available_cores
from wenzhen.errors import RunError, UsageError

# Chunks that are answered or being answered at a time, for each worker: a slow one holds up none of the others.
LOOK_AHEAD = 4


def answer_in_processes(job: Job, source: QuestionFile, start: Place, processes: int) -> Iterator[Answered]:
    """Answer the questions of a file behind a place in several processes; yield chunks in order.

    The cores are shared out among the processes; where there are GPUs, each process has one.

    Raises:
        UsageError: the model cannot be loaded.
        RunError: the model fails, or a process ends.
    """
    chunks = source.chunks(job.chunk_size, start)
    answered: dict[int, Answered] = {}
    # The first questions of the chunks that have not been yielded.
    order: deque[int] = deque()
    with Workers(job, processes) as workers:
        while True:
            while len(order) < LOOK_AHEAD * processes and workers.is_one_idle and (chunk := next(chunks, None)):
                order.append(chunk.first)
                workers.give(chunk)
            if not order:
                return
            if order[0] in answered:
                yield answered.pop(order.popleft())
            else:
                answered |= workers.wait()


class Workers:
    """Processes that start when there is something to do, and end with the block."""

    def __init__(self, job: Job, count: int) -> None:
        self.job, self.count = job, count
        self.processes: dict[Connection, multiprocessing.process.BaseProcess] = {}
        self.idle: list[Connection] = []
        self.busy: dict[Connection, Chunk] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.join()

    @property
    def is_one_idle(self) -> bool:
        """Whether a chunk can be given."""
        return bool(self.idle) or len(self.processes) < self.count

    def give(self, chunk: Chunk) -> None:
        """Have an idle worker answer a chunk."""
        connection = self.idle.pop() if self.idle else self.start()
        self.busy[connection] = chunk
        try:
            connection.send(chunk)
        except OSError:
            self.lament(connection)

    def start(self) -> Connection:
        """Start a worker."""
        # A process that is forked from one with threads may wait for what none of them will do.
        context = multiprocessing.get_context("spawn")
        connection, other = context.Pipe()
        number, threads = len(self.processes), max(1, available_cores() // self.count)
        process = context.Process(target=work, args=(self.job, other, number, threads), daemon=True)
        process.start()
        # Its end must be seen when it ends.
        other.close()
        self.processes[connection] = process
        return connection

    def wait(self) -> dict[int, Answered]:
        """Wait for answers to chunks, and return them by the numbers of the chunks' first questions."""
        answered = {}
        for connection in wait(list(self.busy)):
            assert isinstance(connection, Connection)
            try:
                result = connection.recv()
            except (EOFError, OSError):
                self.lament(connection)
            if isinstance(result, Exception):
                raise result
            answered[self.busy.pop(connection).first] = result
            self.idle.append(connection)
        return answered

    def lament(self, connection: Connection) -> None:
        """Say which worker has ended.

        Raises:
            RunError: always.
        """
        process = self.processes[connection]
        process.join()
        code = process.exitcode or 0
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
        raise RunError(
            f"a process {how} at {name_of(self.busy[connection])}; often memory was short: give fewer --processes or "
            "a smaller --batch-size"
        )


def work(job: Job, connection: Connection, number: int, threads: int) -> None:
    """Be a worker: answer chunks until there are no more.

    Args:
        job: what to answer with.
        connection: brings chunks, and takes answers to them or the error that ends the work.
        number: of the worker, from 0.
        threads: that it may use.
    """
    # Ctrl-C reaches all processes of a terminal; this one ends with the one that writes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when torch is imported.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    choose_gpu(number)
    # tqdm's own would be left behind where a signal ends this process.
    tqdm.set_lock(RLock())
    try:
        answerer = job.start()
        while True:
            connection.send(answer_chunk(answerer, job, connection.recv()))
    except (UsageError, RunError) as error:
        connection.send(error)
    except (EOFError, BrokenPipeError):
        # There is nobody any more who would write the answers.
        return


def choose_gpu(number: int) -> None:
    """Leave a worker one of the GPUs that this process sees, if any, before something is put on them."""
    import torch

    if count := torch.cuda.device_count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number % count]
