"""The Hub on loopback, asked by the real client for what the pushes do not ask."""

from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, HfFileSystem
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

from hub_server import Hub

WEIGHTS = bytes(range(256)) * 40


def test_model_repository_with_folders_and_ranges(client: Hub, tmp_path: Path) -> None:
    api = HfApi(endpoint=client.url)
    api.create_repo("tester/model")
    first = api.create_commit(
        "tester/model",
        [
            CommitOperationAdd("model.safetensors", WEIGHTS),
            CommitOperationAdd("figures/a/loss.txt", b"loss"),
            CommitOperationAdd("config.json", b"{}"),
        ],
        commit_message="first",
    )
    api.create_commit("tester/model", [CommitOperationDelete("figures/")], commit_message="second")
    assert api.list_repo_files("tester/model") == [".gitattributes", "config.json", "model.safetensors"]
    then = api.list_repo_tree("tester/model", "figures", revision=first.oid)
    assert [(type(each).__name__, each.path) for each in then] == [("RepoFolder", "figures/a")]
    info = api.get_paths_info("tester/model", ["model.safetensors", "config.json", "none"])
    assert [each.size for each in info] == [len(WEIGHTS), 2]
    # git hash-object of a file that holds {}
    assert info[1].blob_id == "9e26dfeeb6e641a33dae4961196235bdb965b21b"
    downloaded = api.hf_hub_download("tester/model", "model.safetensors", cache_dir=tmp_path)
    assert Path(downloaded).read_bytes() == WEIGHTS
    with HfFileSystem(endpoint=client.url).open("tester/model/model.safetensors", block_size=100) as file:
        file.seek(300)
        assert file.read(10) == WEIGHTS[300:310]
    with pytest.raises(EntryNotFoundError):
        api.hf_hub_download("tester/model", "figures/a/loss.txt", cache_dir=tmp_path)
    with pytest.raises(RevisionNotFoundError):
        api.model_info("tester/model", revision="0" * 40)


def test_private_repository_is_hidden_from_others(client: Hub) -> None:
    HfApi(endpoint=client.url).create_repo("tester/demo", repo_type="space", space_sdk="gradio", private=True)
    assert HfApi(endpoint=client.url).space_info("tester/demo").private
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=client.url, token=False).space_info("tester/demo")
