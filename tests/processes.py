"""Programs in processes of their own that begin with the libraries read, over which a fresh one spends seconds."""

import gc
import multiprocessing
import os
import runpy
import socket
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from helpers import ROOT

# Its children start with what it has imported.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "matplotlib.figure",
        "wenzhen.answering.batch",
        "wenzhen.benchmark.contestants",
        "wenzhen.corpus.building",
        "wenzhen.evaluation.evaluator",
        "wenzhen.hub.model_card",
        "wenzhen.training.run",
    ]
)


class Program(NamedTuple):
    """A program at work, whose output and errors go to files."""

    process: BaseProcess
    output: Path
    errors: Path

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        self.process.join(120)
        assert self.process.exitcode is not None, "it hangs"
        return self.process.exitcode

    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")


def start(words: list[str], place: Path, environment: dict[str, str] | None = None) -> Program:
    """Start what `python` would with these words: `-m MODULE ...` or `SCRIPT ...`.

    Args:
        words: of the command line.
        place: where its output and errors go, with `.out` and `.err` at the end.
        environment: variables besides those of this process.
    """
    program = Program(
        PROCESSES.Process(target=be, args=(words, os.environ | (environment or {}), f"{place}.out", f"{place}.err")),
        Path(f"{place}.out"),
        Path(f"{place}.err"),
    )
    program.process.start()
    return program


def be(words: list[str], environment: dict[str, str], output: str, errors: str) -> None:
    """Be the program."""
    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    for number, name in ((1, output), (2, errors)):
        with Path(name).open("wb") as file:
            os.dup2(file.fileno(), number)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def places(processes: int) -> list[dict[str, str]]:
    """Return for each of several processes of a run the variables by which they find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        {name: str(value) for name, value in {"RANK": rank, "LOCAL_RANK": rank, **common}.items()}
        for rank in range(processes)
    ]
