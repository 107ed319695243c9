"""A run's checkpoints: each is there whole or not at all, and is compared with its manifest before it is used.

A checkpoint is written into a draft beside its place and flushed to the disk; the manifest, with the size and SHA-256
of every file, comes last, and then the draft gets the checkpoint's name. What is deleted loses its name first. So a
run may be killed at any moment: whatever is named as a checkpoint and fits its manifest is one.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from wenzhen.errors import RunError
from wenzhen.folders import hash_file

MANIFEST = "manifest.json"
# Neither begins as the Trainer's name of a checkpoint does.
DRAFT, REMOVED = ".draft-", ".removed-"
# The libraries that wrote what stands in it.
VERSIONS = ("wenzhen", "torch", "transformers", "accelerate")


@dataclasses.dataclass(frozen=True)
class Origin:
    """The run that wrote a checkpoint."""

    processes: int
    # Whether they shared the model (FSDP), which makes other files.
    sharded: bool
    # How much one step learns from, as `{"pairs": 32}`.
    global_batch: dict[str, int]
    # SHA-256 of its settings and of all that it learns from and measures.
    content: str = ""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a checkpoint is and what it consists of."""

    step: int
    origin: Origin
    # Size in bytes and SHA-256 by path, relative to the checkpoint.
    files: dict[str, tuple[int, str]]
    versions: dict[str, str]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())

    @classmethod
    def of(cls, folder: Path, step: int, origin: Origin) -> "Manifest":
        """Describe the files of a folder."""
        files = {name: (path.stat().st_size, hash_file(path)) for name, path in files_of(folder)}
        versions = {name: metadata.version(name) for name in VERSIONS}
        return cls(step, origin, files, versions)

    def write(self, folder: Path) -> None:
        """Write the manifest with its own SHA-256."""
        content = dataclasses.asdict(self)
        text = json.dumps({"content": content, "sha256": content_sha256(content)}, indent=1)
        (folder / MANIFEST).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read a checkpoint's manifest.

        Raises:
            ValueError: it is missing, torn or altered; the message says which.
        """
        try:
            text = (folder / MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ValueError(f"it has no {MANIFEST}, so it was never finished") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"its {MANIFEST} cannot be read: {error}") from error
        try:
            values = json.loads(text)
            content = values["content"]
            whole = content_sha256(content) == values["sha256"]
            manifest = cls(**{**content, "origin": Origin(**content["origin"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"its {MANIFEST} is torn") from error
        if not whole:
            raise ValueError(f"its {MANIFEST} was altered")
        return manifest


class CheckpointFolder:
    """The folder with a run's checkpoints, `checkpoint-STEP` each.

    Args:
        folder: need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Steps whose hashes held since this object was made; hashing them again and again would take too long.
        self.compared: set[int] = set()

    def place(self, step: int) -> Path:
        """Return where the checkpoint of a step stands."""
        return self.folder / f"checkpoint-{step}"

    def draft(self, step: int) -> Path:
        """Return where the checkpoint of a step is prepared."""
        return self.folder / f"{DRAFT}{step}"

    def steps(self) -> list[int]:
        """Return the steps of all folders that are named as a checkpoint, the oldest first."""
        if not self.folder.is_dir():
            return []
        names = (re.fullmatch(r"checkpoint-(0|[1-9]\d*)", path.name) for path in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def find_fault(self, step: int) -> str | None:
        """Return what is wrong with the checkpoint of a step; None where it is whole."""
        fault = find_fault(self.place(step), step, hashed=step not in self.compared)
        if fault is None:
            self.compared.add(step)
        return fault

    def good_steps(self) -> Iterator[int]:
        """Yield the steps of the checkpoints that are whole, the newest first."""
        return (step for step in reversed(self.steps()) if self.find_fault(step) is None)

    def room(self) -> int:
        """Return how many bytes the disk has room for."""
        return shutil.disk_usage(self.folder).free

    def check_room(self, size: int) -> None:
        """Refuse a disk that has no room for one checkpoint of `size` bytes.

        Raises:
            RunError: it has not.
        """
        if self.room() < size:
            raise RunError(
                f"{self.folder} has room for {megabytes(self.room())}, and a checkpoint takes about "
                f"{megabytes(size)}; make room, or name another output folder"
            )

    def explain_failure(self, step: int, error: BaseException, size: int) -> str:
        """Say why the checkpoint of a step, about `size` bytes, could not be written, and what is left."""
        room = self.room() + sum(path.stat().st_size for _, path in files_of(self.draft(step)))
        return (
            f"checkpoint {step} could not be written: it takes about {megabytes(size)}, and {self.folder} has room "
            f"for {megabytes(room)} ({' '.join(str(error).split())}); make room. {self.what_is_left()}"
        )

    def what_is_left(self) -> str:
        """Say how a run that failed goes on."""
        last = next(self.good_steps(), None)
        if last is None:
            return "No checkpoint was saved before: start again with --overwrite"
        return f"Checkpoint {last} is intact: the same command with --resume goes on from there"

    def publish(self, step: int, origin: Origin) -> None:
        """Make the draft of a step, whose files are all written, its checkpoint; see [`Manifest`].

        An earlier one of that step goes only when the draft is whole on the disk; a run killed in between finds the
        draft and finishes this, see [`finish_drafts`].
        """
        draft = self.draft(step)
        for _, path in files_of(draft):
            synchronize(path)
        Manifest.of(draft, step, origin).write(draft)
        synchronize(draft / MANIFEST)
        for folder in sorted(path for path in draft.rglob("*") if path.is_dir()):
            synchronize(folder)
        synchronize(draft)
        self.remove(step)
        draft.rename(self.place(step))
        synchronize(self.folder)
        self.compared.add(step)

    def remove(self, step: int) -> None:
        """Delete the checkpoint of a step, if there is one; it loses its name first."""
        self.compared.discard(step)
        if self.place(step).exists():
            removed = self.folder / f"{REMOVED}{step}"
            discard(removed)
            self.place(step).rename(removed)
            synchronize(self.folder)
            discard(removed)

    def rotate(self, limit: int | None, best: int | None) -> None:
        """Delete all but the newest `limit` good checkpoints and the best one; None keeps every one.

        What is broken counts for nothing: once there is a good one after it, it goes.
        """
        good = list(self.good_steps())
        if limit is None or not good:
            return
        kept = {*good[:limit], best}
        for step in self.steps():
            if step < good[0] and step not in kept:
                self.remove(step)

    def finish_drafts(self) -> None:
        """Clear away what a killed run left beside its checkpoints; a draft that lacked its name only gets it."""
        if not self.folder.is_dir():
            return
        for path in self.folder.glob(f"{DRAFT}*"):
            number = path.name.removeprefix(DRAFT)
            if number.isdecimal() and find_fault(path, int(number)) is None and self.find_fault(int(number)):
                self.remove(int(number))
                path.rename(self.place(int(number)))
            else:
                discard(path)
        for path in self.folder.glob(f"{REMOVED}*"):
            discard(path)


def find_fault(folder: Path, step: int, hashed: bool = True) -> str | None:
    """Compare a checkpoint with its manifest.

    Args:
        folder: the checkpoint.
        step: which one it must be.
        hashed: compare the SHA-256 of the files too, not only their names and sizes.

    Returns:
        What is wrong, as the end of a sentence about the checkpoint; None where nothing is.
    """
    try:
        manifest = Manifest.read(folder)
        if manifest.step != step:
            return f"its {MANIFEST} is that of step {manifest.step}"
        found = dict(files_of(folder))
        for name, (size, digest) in manifest.files.items():
            if name not in found:
                return f"{name} is missing"
            length = found[name].stat().st_size
            if length != size:
                return f"{name} has {length:,} bytes, not {size:,}"
            if hashed and hash_file(found[name]) != digest:
                return f"{name} was altered"
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read: {error}"
    # Nothing may be read that is not known; a desktop's hidden files are not.
    added = [name for name in found if name not in manifest.files and not Path(name).name.startswith(".")]
    return f"{added[0]} was added to it" if added else None


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """Return all files of a checkpoint but its manifest by their relative paths, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(name, path) for path in paths if (name := path.relative_to(folder).as_posix()) != MANIFEST]


def content_sha256(content: dict[str, Any]) -> str:
    """Hash a manifest's content, whichever way its JSON was written."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def synchronize(path: Path) -> None:
    """Have the system write a file or a folder to the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Delete a folder or a file that may be there; what cannot be deleted is left to the next run."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def megabytes(size: int) -> str:
    """Write a size for people."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
