"""Folders and files that appear whole or not at all."""

import fcntl
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from wenzhen.errors import UsageError


def check_output_folder(folder: Path, contents: Sequence[str], overwrite: bool) -> None:
    """Refuse an output folder that would destroy something.

    Args:
        folder: where a result is to lie.
        contents: patterns of the names that a result of this kind may hold; every result holds the first.
        overwrite: whether an earlier result of this kind may be replaced.

    Raises:
        UsageError: the folder is a file, holds something of another kind, or holds a result and `overwrite` is off.
    """
    for parent in folder.parents:
        if parent.exists() and not parent.is_dir():
            raise UsageError(f"the output {folder} cannot be made: {parent} is a file")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"the output {folder} is a file; name a folder")
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return
    foreign = [name for name in names if not any(fnmatch(name, pattern) for pattern in contents)]
    if foreign or not (folder / contents[0]).is_file():
        what = ", ".join(foreign[:3]) or f"no {contents[0]}"
        raise UsageError(f"the output folder {folder} holds other files ({what}); name a new or empty folder")
    if not overwrite:
        raise UsageError(f"the output folder {folder} already holds a result; add --overwrite to replace it")


def as_text(path: Path) -> str:
    """Return a path as it can be printed and written: what is no UTF-8 in it is replaced."""
    return str(path).encode("utf-8", "replace").decode()


def name_of(folder: Path) -> str:
    """Return a folder's own name, as [`as_text`]."""
    return as_text(Path(folder.resolve().name))


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def replace_folder(folder: Path, draft: Path, old: Path) -> None:
    """Put `draft` in the place of `folder`, which goes to `old`, or comes back where that fails."""
    if folder.exists():
        folder.rename(old)
    try:
        draft.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise


@contextmanager
def published_folder(folder: Path, contents: Sequence[str], overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `folder` that takes its place, in one step, when the block ends well.

    What a killed run left there is cleared away first, and what it was about to replace put back.

    Raises:
        UsageError: as [`check_output_folder`].
    """
    try:
        # A link leads to where the result belongs, and stays.
        folder = folder.resolve()
    except RuntimeError as error:
        raise UsageError(f"the output {folder} is a link that leads to itself") from error
    if os.path.ismount(folder) or Path.cwd().is_relative_to(folder):
        raise UsageError(f"the output {folder} cannot be replaced where it stands; name a folder inside it")
    prefix = f".{folder.name}.draft-"
    # mkdtemp adds eight characters; an output named as another's draft has more.
    for abandoned in folder.parent.glob(f"{glob.escape(prefix)}{'?' * 8}"):
        clear_abandoned(abandoned, folder)
    check_output_folder(folder, contents, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    aside.chmod(0o755)
    with held(aside):
        try:
            draft = aside / "new"
            draft.mkdir()
            yield draft
            # Somebody may have put something there meanwhile.
            check_output_folder(folder, contents, overwrite)
            replace_folder(folder, draft, aside / "old")
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def replace_file(file: Path) -> Iterator[Path]:
    """Yield a name beside `file` for a draft that takes its place when the block ends well."""
    draft = file.with_name(f".{file.name}.draft")
    try:
        yield draft
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only process at work in a folder; nothing is left behind, however the process ends.

    Raises:
        UsageError: another one is.
    """
    try:
        descriptor = lock_folder(folder)
    except BlockingIOError as error:
        raise UsageError(
            f"another process is at work in {as_text(folder)}; wait for its end, or name another output"
        ) from error
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def lock_folder(folder: Path) -> int | None:
    """Lock a folder until the descriptor that is returned is closed; None where its file system has no locks.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: it cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


@contextmanager
def held(aside: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system gives back however the process ends.

    Raises:
        BlockingIOError: another process holds it.
    """
    with (aside / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def clear_abandoned(aside: Path, folder: Path) -> None:
    """Remove the folder in which a run that lives no more prepared `folder`; what it had put aside comes back."""
    with suppress(OSError), held(aside):
        if (aside / "old").exists() and not folder.exists():
            (aside / "old").rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
