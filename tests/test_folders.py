import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder, published_folder

MARKER = "done.json"
CONTENTS = (MARKER, "*.txt")


def publish(folder, text, overwrite=False):
    with published_folder(folder, CONTENTS, overwrite) as draft:
        (draft / MARKER).write_text(text, encoding="utf-8")


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_result_appears_only_when_it_is_whole(tmp_path):
    folder = tmp_path / "deep" / "result"
    with published_folder(folder, CONTENTS, False) as draft:
        (draft / MARKER).write_text("1", encoding="utf-8")
        assert not folder.exists()
    assert contents(tmp_path) == {"deep/result/done.json": "1"}
    assert [path.name for path in folder.parent.iterdir()] == ["result"]


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "result").mkdir()
    publish(tmp_path / "result", "1")
    assert contents(tmp_path) == {"result/done.json": "1"}


def test_a_replaced_result_leaves_no_old_files(tmp_path):
    publish(tmp_path / "result", "1")
    (tmp_path / "result" / "more.txt").write_text("old", encoding="utf-8")
    publish(tmp_path / "result", "2", overwrite=True)
    assert contents(tmp_path) == {"result/done.json": "2"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_the_old_result_stands_until_the_new_one_is_whole(tmp_path):
    publish(tmp_path / "result", "1")
    with published_folder(tmp_path / "result", CONTENTS, True) as draft:
        assert contents(tmp_path / "result") == {MARKER: "1"}
        assert list(draft.iterdir()) == []


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, UsageError])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_failure_changes_nothing(tmp_path, failure, earlier):
    if earlier:
        publish(tmp_path / "result", "1")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(failure), published_folder(tmp_path / "result", CONTENTS, True) as draft:
        (draft / MARKER).write_text("2", encoding="utf-8")
        raise failure
    assert sorted(tmp_path.rglob("*")) == before
    assert contents(tmp_path) == ({"result/done.json": "1"} if earlier else {})


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failure_while_the_folders_change_places_keeps_the_old_result(tmp_path, monkeypatch, failing):
    publish(tmp_path / "result", "1")
    rename, calls = os.rename, []

    def sometimes_fail(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError("no space left")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", sometimes_fail)
        with pytest.raises(OSError, match="no space left"):
            publish(tmp_path / "result", "2", overwrite=True)
    assert contents(tmp_path) == {"result/done.json": "1"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_output_folder(tmp_path, overwrite):
    path = tmp_path / "result"
    path.write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match="result is a file"):
        publish(path, "1", overwrite)
    assert contents(tmp_path) == {"result": "keep"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_foreign_folder_is_refused(tmp_path, overwrite):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "notes.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match=r"no done\.json"):
        publish(tmp_path / "result", "1", overwrite)
    assert contents(tmp_path) == {"result/notes.txt": "keep"}


def test_a_result_with_foreign_files_in_it_is_refused(tmp_path):
    publish(tmp_path / "result", "1")
    (tmp_path / "result" / "thesis.docx").touch()
    with pytest.raises(UsageError, match=r"other files \(thesis\.docx\)"):
        publish(tmp_path / "result", "2", overwrite=True)
    assert contents(tmp_path)["result/done.json"] == "1"


def test_a_link_leads_to_where_the_result_belongs(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "result").symlink_to(tmp_path / "disk")
    publish(tmp_path / "result", "1")
    publish(tmp_path / "result", "2", overwrite=True)
    assert (tmp_path / "result").is_symlink()
    assert contents(tmp_path / "disk") == {"done.json": "2"}


def test_an_earlier_result_is_refused_without_overwrite(tmp_path):
    publish(tmp_path / "result", "1")
    with pytest.raises(UsageError, match="--overwrite"):
        publish(tmp_path / "result", "2")
    assert contents(tmp_path) == {"result/done.json": "1"}


def test_checking_creates_nothing(tmp_path):
    check_output_folder(tmp_path / "a" / "b", CONTENTS, False)
    assert list(tmp_path.iterdir()) == []


def killed_run(folder, stage):
    """Leave what a run leaves that is killed while it writes, or while the folders change places."""
    script = f"""
import os, signal
from pathlib import Path
from wenzhen import folders

folder = Path({str(folder)!r})
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if {stage!r} == "changing places":
    rename = Path.rename
    Path.rename = lambda self, target: die() if self.name == "new" else rename(self, target)
with folders.published_folder(folder, CONTENTS, True) as draft:
    (draft / CONTENTS[0]).write_text("new")
    if {stage!r} == "writing":
        die()
""".replace("CONTENTS", repr(CONTENTS))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("stage", ["writing", "changing places"])
def test_what_a_killed_run_left_is_cleared_away_and_what_it_put_aside_comes_back(tmp_path, stage):
    folder = tmp_path / "result"
    publish(folder, "old")
    killed_run(folder, stage)
    assert folder.exists() == (stage == "writing")
    assert len(list(tmp_path.glob(".result.draft-*"))) == 1
    with pytest.raises(UsageError, match="--overwrite"):
        publish(folder, "newer")
    assert contents(tmp_path) == {"result/done.json": "old"}


def test_what_a_living_run_holds_is_left_alone(tmp_path):
    folder = tmp_path / "result"
    with published_folder(folder, CONTENTS, overwrite=False) as draft:
        publish(folder, "quicker")
        assert draft.is_dir()
        shutil.rmtree(folder)
        (draft / CONTENTS[0]).write_text("slower")
    assert (folder / CONTENTS[0]).read_text() == "slower"


def test_what_came_into_the_output_meanwhile_is_kept(tmp_path):
    folder = tmp_path / "result"
    with pytest.raises(UsageError, match=r"thesis\.doc"), published_folder(folder, CONTENTS, overwrite=True) as draft:
        (draft / MARKER).write_text("1", encoding="utf-8")
        folder.mkdir()
        (folder / "thesis.doc").write_text("precious", encoding="utf-8")
    assert contents(tmp_path) == {"result/thesis.doc": "precious"}


def test_the_current_folder_and_a_link_to_itself_are_no_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for output, problem in ((".", "cannot be replaced"), ("loop", "leads to itself")):
        with pytest.raises(UsageError, match=problem):
            publish(Path(output), "1")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
