"""Pushing a dataset to a Hub, and loading it from there."""

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from datasets import load_from_disk
from huggingface_hub import HfApi

from helpers import ROOT
from hub_client import run_python, usage
from hub_server import Account, Hub
from hub_store import File, Repository
from wenzhen.errors import RunError, UsageError
from wenzhen.hub.dataset import push_dataset

NAME = "tester/consultations"
SMALL = 20_000


def repository(hub: Hub, name: str = NAME) -> Repository:
    return hub.repositories["dataset", name]


def url(hub: Hub) -> str:
    return f"{hub.url}/datasets/{NAME}/tree/{repository(hub).commits[-1].oid}"


def test_a_fresh_process_loads_what_a_fresh_process_pushed(hub: Hub, folder: Path, tmp_path: Path) -> None:
    environment = hub.environment(tmp_path / "home")
    push = (
        "from pathlib import Path\nfrom wenzhen.hub.dataset import push_dataset\n"
        f"print(push_dataset(Path({str(folder)!r}), {NAME!r}, False, shard_bytes={SMALL}))"
    )
    assert run_python(push, tmp_path, environment) == f"{url(hub)}\n"

    card = repository(hub).files["README.md"].decode()
    printed = run_python(f"{usage(card)}\ndataset.save_to_disk('loaded')", tmp_path, environment | {"HF_TOKEN": ""})
    pushed, loaded = load_from_disk(folder), load_from_disk(tmp_path / "loaded")
    assert list(loaded) == list(pushed) == ["train", "validation", "test"]
    for split in pushed:
        assert loaded[split].features == pushed[split].features
        assert loaded[split].to_list() == pushed[split].to_list()
    first = pushed["train"][0]
    department = pushed["train"].features["department"].int2str(first["department"])
    assert printed.endswith("\n".join((first["question"], first["answer"], department, "")))


def test_the_script_builds_and_pushes_in_one_command(hub: Hub, corpus: Path, tmp_path: Path) -> None:
    environment = hub.environment(tmp_path / "home")
    script = [sys.executable, str(ROOT / "data_scripts/build_dataset.py"), "--output", str(tmp_path / "dataset")]
    for arguments in (["--input", str(corpus), "--push", NAME, "--private"], ["--push", NAME]):
        result = subprocess.run(
            [*script, *arguments], env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1] == f"pushed: {url(hub)}"
    assert repository(hub).private
    assert len(repository(hub).commits) == 2
    load = f"from datasets import load_dataset\nprint({{k: len(v) for k, v in load_dataset({NAME!r}).items()}})"
    splits = json.loads((tmp_path / "dataset/report.json").read_text(encoding="utf-8"))["splits"]
    assert run_python(load, tmp_path, environment).splitlines()[-1] == str(splits)


def test_everything_meant_for_others_is_published_and_nothing_else(client: Hub, folder: Path) -> None:
    push_dataset(folder, NAME, private=False)
    files = repository(client).files
    shards = [f"data/{split}-00000-of-00001.parquet" for split in ("train", "validation", "test")]
    reports = ["report.json", "report.md", "facts.json", "figures/lengths.png", "figures/departments.png"]
    assert sorted(files) == sorted([".gitattributes", "README.md", *shards, *reports])
    assert all(files[path] == (folder / path).read_bytes() for path in reports)
    for content in (*files.values(), *client.objects.values()):
        assert b"13900000000" not in content
    assert len(repository(client).commits) == 2


def test_shards_are_bounded_numbered_and_in_order(client: Hub, folder: Path) -> None:
    push_dataset(folder, NAME, private=False, shard_bytes=SMALL)
    files = repository(client).files
    names = sorted(path for path in files if path.startswith("data/train-"))
    assert len(names) > 2
    assert names == [f"data/train-{i:05d}-of-{len(names):05d}.parquet" for i in range(len(names))]
    tables = [pyarrow.parquet.read_table(io.BytesIO(files[name])) for name in names]
    # Rows are shared out evenly, not bytes.
    assert all(table.nbytes < 1.2 * SMALL for table in tables)
    ids = [id for table in tables for id in table.column("id").to_pylist()]
    assert ids == load_from_disk(folder)["train"]["id"][:]


def test_a_later_push_leaves_nothing_of_an_earlier_one(client: Hub, folder: Path) -> None:
    push_dataset(folder, NAME, private=False, shard_bytes=SMALL)
    head = repository(client).commits[-1]
    repository(client).commit("a file of the owner's", head.files | {"docs/letter.txt": File(b"keep me")})
    (folder / "facts.json").unlink()
    (folder / "figures/lengths.png").unlink()
    push_dataset(folder, NAME, private=False)
    files = repository(client).files
    assert [path for path in sorted(files) if path.startswith("data/")] == [
        f"data/{split}-00000-of-00001.parquet" for split in ("test", "train", "validation")
    ]
    assert "facts.json" not in files
    assert [path for path in files if path.startswith("figures/")] == ["figures/departments.png"]
    assert files["docs/letter.txt"] == b"keep me"
    assert len(repository(client).commits) == 4


def test_pushing_the_same_again_changes_nothing(client: Hub, folder: Path) -> None:
    first = push_dataset(folder, NAME, private=False)
    commits = list(repository(client).commits)
    assert push_dataset(folder, NAME, private=False) == first
    assert repository(client).commits == commits


def test_private_repository(client: Hub, folder: Path, tmp_path: Path) -> None:
    push_dataset(folder, NAME, private=True)
    assert repository(client).private
    assert "README.md" in repository(client).files
    # What is private stays so when a later push does not say it.
    push_dataset(folder, NAME, private=False)
    assert repository(client).private
    load = f"from datasets import load_dataset\nprint(load_dataset({NAME!r})['test'].num_rows)"
    environment = client.environment(tmp_path / "other-home")
    assert int(run_python(load, tmp_path, environment)) == len(load_from_disk(folder)["test"])


def test_private_is_refused_where_the_repository_is_public(client: Hub, folder: Path) -> None:
    push_dataset(folder, NAME, private=False)
    commits = list(repository(client).commits)
    with pytest.raises(UsageError, match="public repository already"):
        push_dataset(folder, NAME, private=True)
    assert repository(client).commits == commits


def test_owner_who_is_neither_the_user_nor_an_organization(client: Hub, folder: Path) -> None:
    with pytest.raises(UsageError, match="the owners allowed are: tester, clinic"):
        push_dataset(folder, "someone/consultations", private=False)
    push_dataset(folder, "clinic/consultations", private=False)
    assert "README.md" in repository(client, "clinic/consultations").files


def test_token_that_the_hub_refuses_late(client: Hub, folder: Path) -> None:
    client.accounts["hf_test"] = Account("tester", role="fineGrained")
    with pytest.raises(UsageError, match=r"may not write to someone/consultations \(HTTP 403: You don"):
        push_dataset(folder, "someone/consultations", private=False)
    assert not client.repositories


@pytest.mark.parametrize(
    ("method", "pattern", "status", "error"),
    [("POST", "/commit/", 500, RunError), ("POST", "/commit/", None, RunError), ("PUT", "/lfs/", 403, UsageError)],
)
def test_a_push_that_fails_publishes_nothing(
    client: Hub,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    pattern: str,
    status: int | None,
    error: type[Exception],
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    client.fail(method, pattern, status, times=99)
    with pytest.raises(error) as caught:
        push_dataset(folder, NAME, private=False)
    assert "\n" not in str(caught.value)
    assert list(repository(client).files) == [".gitattributes"]
    assert not list(scratch.iterdir())
    client.faults.clear()
    push_dataset(folder, NAME, private=False)
    assert "README.md" in repository(client).files
    assert not list(scratch.iterdir())


def test_an_upload_that_breaks_off_once_is_taken_up_again(client: Hub, folder: Path) -> None:
    client.fail("PUT", "/lfs/", None)
    push_dataset(folder, NAME, private=False)
    assert len([path for path in repository(client).files if path.startswith("data/")]) == 3


def test_who_pushes_at_the_same_time_is_not_mixed_in(
    client: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files = HfApi.list_repo_files

    def list_and_lose_the_race(*args: Any, **options: Any) -> list[str]:
        files = list_files(*args, **options)
        repository(client).commit("somebody else's", {"data/train-other.parquet": File(b"theirs")})
        return files

    monkeypatch.setattr(HfApi, "list_repo_files", list_and_lose_the_race)
    with pytest.raises(RunError, match="A commit has happened since"):
        push_dataset(folder, NAME, private=False)
    assert repository(client).files == {"data/train-other.parquet": b"theirs"}


def test_folder_that_holds_no_dataset(client: Hub, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no dataset"):
        push_dataset(tmp_path, NAME, private=False)
    assert not client.requests


@pytest.mark.parametrize("content", [None, "{", "[]", '{"splits": {"train": 1, "validation": 1, "test": 1}}'])
def test_report_that_does_not_fit(client: Hub, folder: Path, content: str | None) -> None:
    (folder / "report.json").unlink()
    if content is not None:
        (folder / "report.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"report\.json.*build the dataset again"):
        push_dataset(folder, NAME, private=False)
    assert not client.requests


def test_report_goes_along_unchanged(client: Hub, folder: Path) -> None:
    push_dataset(folder, NAME, private=False)
    assert json.loads(repository(client).files["report.json"]) == json.loads((folder / "report.json").read_bytes())


def test_report_that_the_card_cannot_tell(client: Hub, folder: Path, report: dict[str, Any]) -> None:
    (folder / "report.json").write_text(json.dumps(report | {"rejected": 5}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"report\.json is damaged: .*build the dataset again") as caught:
        push_dataset(folder, NAME, private=False)
    assert "\n" not in str(caught.value)
    assert not client.repositories


def test_links_and_false_pictures_are_refused(client: Hub, folder: Path, tmp_path: Path) -> None:
    picture = folder / "figures/lengths.png"
    picture.write_text("root:x:0:0", encoding="utf-8")
    with pytest.raises(UsageError, match=r"lengths\.png is no PNG picture"):
        push_dataset(folder, NAME, private=False)
    picture.unlink()
    picture.symlink_to(tmp_path / "anything")
    with pytest.raises(UsageError, match=r"lengths\.png is a link"):
        push_dataset(folder, NAME, private=False)
    assert not client.repositories
