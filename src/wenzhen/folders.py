"""Folders that appear whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wenzhen.errors import UsageError


def check_output_folder(folder: Path, marker: str, overwrite: bool) -> None:
    """Refuse an output folder that would destroy something.

    Args:
        folder: where a result is to lie.
        marker: a file that every finished result of this kind holds.
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
    if not any(folder.iterdir()):
        return
    if not (folder / marker).is_file():
        raise UsageError(f"the output folder {folder} holds other files (no {marker}); name a new or empty folder")
    if not overwrite:
        raise UsageError(f"the output folder {folder} already holds a result; add --overwrite to replace it")


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
def published_folder(folder: Path, marker: str, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `folder` that takes its place, in one step, when the block ends well.

    Raises:
        UsageError: as [`check_output_folder`].
    """
    check_output_folder(folder, marker, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    aside.chmod(0o755)
    try:
        draft = aside / "new"
        draft.mkdir()
        yield draft
        replace_folder(folder, draft, aside / "old")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
