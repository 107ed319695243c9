"""A build that is killed (kill -9) leaves the old dataset or the new one, never a part of either."""

import os
import random
import shutil
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from processes import PROCESSES
from wenzhen.corpus.building import BuildOptions, build_dataset
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.sample import write_sample_corpus
from wenzhen.corpus.sources import find_sources
from wenzhen.errors import UsageError

# KILLS=50 looks further.
KILLS = int(os.environ.get("KILLS", 4))
OLD, NEW = BuildOptions(seed=1), BuildOptions(seed=2)

Files = dict[str, bytes]


class Builds(NamedTuple):
    """A corpus, what undisturbed builds make of it by the old options and by the new ones, and how long one takes."""

    corpus: Path
    old: Path
    new: Path
    seconds: float


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    folder = tmp_path_factory.mktemp("builds")
    write_sample_corpus(folder / "corpus", pairs=3000, seed=1, faults_wanted=True, overwrite=False)
    for name, options in (("old", OLD), ("new", NEW)):
        started = time.monotonic()
        assert wait(start(folder / "corpus", folder / name, options)) == 0
    # The second did not have to start the server.
    return Builds(folder / "corpus", folder / "old", folder / "new", time.monotonic() - started)


def start(corpus: Path, output: Path, options: BuildOptions) -> BaseProcess:
    process = PROCESSES.Process(target=build_dataset, args=(corpus, output, options), kwargs={"overwrite": True})
    process.start()
    return process


def wait(process: BaseProcess) -> int | None:
    process.join()
    return process.exitcode


def files_of(folder: Path) -> Files | None:
    """Return what a folder holds by path, None where there is no such folder."""
    if not folder.exists():
        return None
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_next_build_succeeds(builds: Builds, output: Path) -> None:
    """Check that what is left beside the output passes for no dataset and no corpus, and does not outlast a build."""
    for path in output.parent.iterdir():
        if path != output:
            assert path.name.startswith(".")
            with pytest.raises(UsageError):
                load_split(path, "train")
    with pytest.raises(UsageError, match="holds no file"):
        find_sources(output.parent)
    assert wait(start(builds.corpus, output, NEW)) == 0
    assert files_of(output) == files_of(builds.new)
    assert list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_build_killed_at_any_moment_leaves_all_or_nothing(builds: Builds, tmp_path: Path, seed: int) -> None:
    output = tmp_path / "output"
    has_old = seed % 2 == 1
    if has_old:
        shutil.copytree(builds.old, output)
    process = start(builds.corpus, output, NEW)
    time.sleep(random.Random(seed).uniform(0, builds.seconds))
    process.kill()
    assert wait(process) in (-signal.SIGKILL, 0)
    assert files_of(output) in (files_of(builds.old) if has_old else None, files_of(builds.new))
    assert_next_build_succeeds(builds, output)


def is_reached(moment: str, output: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    """Tell whether the system is about to be asked for the step behind a moment."""
    if moment == "nothing is published":
        return event == "os.rename" and Path(arguments[0]) == output
    if moment == "the old one is put aside":
        return event == "os.rename" and Path(arguments[1]) == output
    return event == "shutil.rmtree" and Path(arguments[0]).parent == output.parent


def build_until(moment: str, corpus: Path, output: Path) -> None:
    """Build in place of an old dataset, and be killed at a moment."""

    def kill(event: str, arguments: tuple[Any, ...]) -> None:
        if is_reached(moment, output, event, arguments):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    build_dataset(corpus, output, NEW, overwrite=True)


@pytest.mark.parametrize(
    ("moment", "left", "found"),
    [
        ("nothing is published", "old", "old"),
        # The next build finds the old one beside its place and puts it back.
        ("the old one is put aside", None, "old"),
        ("the new one is published", "new", "new"),
    ],
)
def test_a_build_killed_while_the_datasets_change_places_loses_none(
    builds: Builds, tmp_path: Path, moment: str, left: str | None, found: str
) -> None:
    expected = {None: None, "old": files_of(builds.old), "new": files_of(builds.new)}
    output = tmp_path.resolve() / "output"
    shutil.copytree(builds.old, output)
    process = PROCESSES.Process(target=build_until, args=(moment, builds.corpus, output))
    process.start()
    assert wait(process) == -signal.SIGKILL
    assert files_of(output) == expected[left]
    with pytest.raises(UsageError, match="already holds a result"):
        build_dataset(builds.corpus, output, NEW)
    assert files_of(output) == expected[found]
    assert_next_build_succeeds(builds, output)
