"""A folder of checkpoints: what is whole is used, what is not is found out, and nothing good is lost."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wenzhen.training import checkpoints as module
from wenzhen.training.checkpoints import DRAFT, MANIFEST, REMOVED, CheckpointFolder, Manifest, Origin, find_fault

FILES = {"model.safetensors": b"weights" * 99, "optimizer.pt": b"moments" * 999, "shards/0.bin": b"part", "empty": b""}
ORIGIN = Origin(processes=2, sharded=False, global_batch={"pairs": 32}, content="1f")


def save(folder: CheckpointFolder, step: int) -> Path:
    """Write a checkpoint as a run does."""
    write_draft(folder, step)
    folder.publish(step, ORIGIN)
    return folder.place(step)


def write_draft(folder: CheckpointFolder, step: int) -> None:
    for name, content in FILES.items():
        file = folder.draft(step) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content + str(step).encode())


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


def fresh(folder: CheckpointFolder) -> CheckpointFolder:
    """Return the folder as another process sees it."""
    return CheckpointFolder(folder.folder)


def test_a_saved_checkpoint_is_whole_and_its_manifest_says_what_it_is(folder: CheckpointFolder) -> None:
    place = save(folder, 20)
    assert place.name == "checkpoint-20"
    assert fresh(folder).find_fault(20) is None
    manifest = Manifest.read(place)
    assert (manifest.step, manifest.origin) == (20, ORIGIN)
    assert set(manifest.files) == set(FILES)
    assert manifest.size == sum(len(content) + 2 for content in FILES.values())
    assert [path.name for path in folder.folder.iterdir()] == ["checkpoint-20"]


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "longer", "gone"])
def test_damage_to_any_file_is_found(folder: CheckpointFolder, name: str, damage: str) -> None:
    file = save(folder, 1234) / name
    content = file.read_bytes()
    for place in range(len(content)) if damage == "flipped" and name == MANIFEST else [len(content) // 2]:
        damaged = {
            "cut": content[:-1],
            "emptied": b"",
            "flipped": content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
            "longer": content + b"!",
            "gone": None,
        }[damage]
        file.unlink(missing_ok=True)
        if damaged is not None:
            file.write_bytes(damaged)
        fault = fresh(folder).find_fault(1234)
        assert fault is not None
        assert name in fault or name == MANIFEST


def test_faults_are_worded(folder: CheckpointFolder) -> None:
    place = save(folder, 3)
    shutil.copytree(place, folder.place(4))
    assert folder.find_fault(4) == "its manifest.json is that of step 3"
    (place / "pickle.pt").touch()
    assert folder.find_fault(3) == "pickle.pt was added to it"
    (place / "pickle.pt").rename(place / ".DS_Store")
    assert folder.find_fault(3) is None
    (place / "model.safetensors").write_bytes(b"x")
    assert folder.find_fault(3) == "model.safetensors has 1 bytes, not 694"
    # As a run of an earlier release or the Trainer itself leaves it.
    (place / MANIFEST).unlink()
    assert folder.find_fault(3) == "it has no manifest.json, so it was never finished"


def test_names_that_are_no_checkpoint(folder: CheckpointFolder) -> None:
    assert folder.steps() == []
    save(folder, 100)
    save(folder, 9)
    for name in ("checkpoint-", "checkpoint-07", "checkpoint-1-old", ".checkpoint-3", "checkpoint-x"):
        (folder.folder / name).mkdir()
    assert folder.steps() == [9, 100]
    assert list(folder.good_steps()) == [100, 9]


def test_rotation_keeps_the_newest_good_ones_and_the_best(folder: CheckpointFolder) -> None:
    for step in (10, 20, 30, 40, 50, 60):
        save(folder, step)
    # By step, whatever the times of the folders say.
    os.utime(folder.place(20))
    (folder.place(60) / "optimizer.pt").unlink()
    (folder.place(40) / "optimizer.pt").unlink()
    fresh(folder).rotate(2, best=10)
    # 60 is broken, but nothing good comes after it; 50 and 30 are the newest good ones.
    assert folder.steps() == [10, 30, 50, 60]
    fresh(folder).rotate(1, best=None)
    assert folder.steps() == [50, 60]
    (folder.place(50) / "optimizer.pt").unlink()
    fresh(folder).rotate(1, best=None)
    assert folder.steps() == [50, 60]


def test_a_whole_draft_of_a_killed_run_gets_its_name(folder: CheckpointFolder, monkeypatch) -> None:
    save(folder, 1)
    write_draft(folder, 2)
    # Killed right before it.
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        folder.publish(2, ORIGIN)
    monkeypatch.undo()
    assert folder.steps() == [1]
    fresh(folder).finish_drafts()
    assert list(fresh(folder).good_steps()) == [2, 1]


def test_what_a_killed_run_left_is_cleared(folder: CheckpointFolder) -> None:
    save(folder, 1)
    write_draft(folder, 2)
    write_draft(folder, 1)
    for name in (f"{REMOVED}5", f"{DRAFT}recipe"):
        shutil.copytree(folder.place(1), folder.folder / name)
    (folder.folder / f"{DRAFT}mark").touch()
    fresh(folder).finish_drafts()
    assert [path.name for path in folder.folder.iterdir()] == ["checkpoint-1"]
    assert fresh(folder).find_fault(1) is None


class Killed(BaseException):
    """Stands for the end of the process."""


def publish_killed(folder: CheckpointFolder, step: int, calls: int, patch: pytest.MonkeyPatch) -> bool:
    """Publish a draft, and be killed after so many things asked of the system; tell whether that came to pass."""
    left = iter(range(calls))

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return original(*args, **kwargs)

        return call

    for name in ("fsync", "rename", "unlink", "rmdir"):
        patch.setattr(os, name, counted(getattr(os, name)))
    try:
        folder.publish(step, ORIGIN)
    except Killed:
        return True
    finally:
        patch.undo()
    return False


@pytest.mark.parametrize("earlier_is_good", [True, False])
def test_replacing_a_checkpoint_never_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier_is_good: bool
) -> None:
    """Killed before each single thing that it asks of the system, it leaves the old one or the new one."""
    for calls in range(99):
        folder = CheckpointFolder(tmp_path / str(calls))
        place = save(folder, 7)
        old = Manifest.read(place)
        if not earlier_is_good:
            (place / "optimizer.pt").write_bytes(b"torn")
        write_draft(folder, 7)
        (folder.draft(7) / "model.safetensors").write_bytes(b"new")
        killed = publish_killed(folder, 7, calls, monkeypatch)
        after = fresh(folder)
        after.finish_drafts()
        is_good = after.find_fault(7) is None
        assert is_good or not earlier_is_good
        if not killed:
            break
    assert is_good
    assert Manifest.read(place) != old
    # Every file and both folders were written to the disk, and the names changed.
    assert calls > len(FILES) + 4


def test_a_disk_that_is_full_while_publishing_leaves_no_checkpoint(folder: CheckpointFolder, monkeypatch) -> None:
    save(folder, 1)
    write_draft(folder, 2)

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        folder.publish(2, ORIGIN)
    assert list(fresh(folder).good_steps()) == [1]
    assert find_fault(folder.draft(2), 2) is not None
