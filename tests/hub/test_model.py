"""Pushing a model to a Hub, and loading it from there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import HfApi, constants, snapshot_download

from helpers import ROOT
from hub_client import run_python, usage
from hub_server import Account, Hub
from hub_store import File, Repository
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.safety.loading import RULES_FILE
from wenzhen.cli import main
from wenzhen.demo.main import FILES
from wenzhen.errors import RunError, UsageError
from wenzhen.hub.model import push_model
from wenzhen.models.locating import find_model

NAME = "tester/doctor"
PUBLISHED = [
    "README.md",
    "config.json",
    "configuration_transformer.py",
    "figures/loss.png",
    "generation_config.json",
    "metrics.json",
    "model.safetensors",
    "modeling_transformer.py",
    "recipe.yaml",
    "tokenizer.json",
    "tokenizer_config.json",
    "training_log.jsonl",
]
# After a card's code: what the model says of two questions, and where its class comes from.
REPORT = """
import json, sys, torch
ids = {"input_ids": torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])}
ids["attention_mask"] = (ids["input_ids"] > 0).long()
with torch.no_grad():
    logits = model(**ids, decoder_input_ids=torch.tensor([[2, 9], [2, 4]])).logits
torch.save({"logits": logits, "tokens": model.generate(**ids)}, "outputs.pt")
foreign = sorted(name for name in sys.modules if name.startswith("transformers_modules"))
print(json.dumps({"module": type(model).__module__, "foreign": foreign}))
"""


def repository(hub: Hub, name: str = NAME) -> Repository:
    return hub.repositories["model", name]


def url(hub: Hub) -> str:
    return f"{hub.url}/{NAME}/tree/{repository(hub).commits[-1].oid}"


def without(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).unlink()
    return folder


def test_what_a_fresh_process_pushed_loads_with_and_without_the_package(hub: Hub, model: Path, tmp_path: Path) -> None:
    environment = hub.environment(tmp_path / "home")
    push = [sys.executable, "-m", "wenzhen", "push", str(model), NAME]
    pushed = subprocess.run(
        push, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert (pushed.returncode, pushed.stdout, pushed.stderr) == (
        0,
        f"pushed: {url(hub)}\n",
        "",
    )

    code = usage(repository(hub).files["README.md"].decode())
    results = {}
    for reader, first in (("package", "import wenzhen"), ("alone", "import sys\nsys.modules['wenzhen'] = None")):
        (tmp_path / reader).mkdir()
        environment = hub.environment(tmp_path / f"home of {reader}", token=None)
        *printed, last = run_python(
            f"{first}\n{code}\n{REPORT}", tmp_path / reader, environment | {"HF_TOKEN": ""}
        ).splitlines()
        results[reader] = (printed, json.loads(last), torch.load(tmp_path / reader / "outputs.pt"))
    assert results["package"][1] == {
        "module": "wenzhen.models.transformer.modeling_transformer",
        "foreign": [],
    }
    assert results["alone"][1]["module"].startswith("transformers_modules.")

    engine = PyTorchEngine(model)
    (_, answer), *_ = engine.generate(["高血压平时要注意什么？"])
    printed, _, outputs = results["package"]
    shape, text = printed[0], "\n".join(printed[1:])
    assert text == answer.text
    # The recipe of the tests ends answers after 80 tokens.
    assert shape.startswith("torch.Size([1, ") and 1 < int(shape.split()[1].rstrip("])")) <= 81
    assert results["alone"][0] == printed
    for key, tensor in outputs.items():
        assert torch.equal(results["alone"][2][key], tensor)


def test_with_the_package_no_code_is_trusted_nor_downloaded(client: Hub, model: Path, tmp_path: Path) -> None:
    push_model(model, NAME, private=False)
    card = repository(client).files["README.md"].decode()
    code = next(block for block in re.findall(r"```python\n(.*?)```", card, re.DOTALL) if "import wenzhen" in block)
    assert "trust_remote_code" not in code
    client.requests.clear()
    environment = client.environment(tmp_path / "reader", token=None) | {"HF_TOKEN": ""}
    printed = json.loads(run_python(f"{code}\n{REPORT}", tmp_path, environment))
    assert printed == {"module": "wenzhen.models.transformer.modeling_transformer", "foreign": []}
    fetched = {path.rpartition("/")[2] for _, path in client.requests}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= fetched
    assert not [name for name in fetched if name.endswith(".py")]
    assert not list((tmp_path / "reader").rglob("*.py"))


def test_a_model_of_the_hub_keeps_its_own_safety_rules(
    client: Hub, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    own = RULES_FILE.read_text(encoding="utf-8").replace("\nversion: ", "\nversion: own-")
    (model / "safety.yaml").write_text(own, encoding="utf-8")
    push_model(model, NAME, private=False)
    assert "`safety.yaml`, which the model's owner wrote," in repository(client).files["README.md"].decode()
    assert Answerer(find_model(NAME, FILES)).rules.version.startswith("own-")

    (model / "safety.yaml").unlink()
    push_model(model, NAME, private=False)
    assert "safety.yaml" not in repository(client).files
    assert "safety.yaml" not in repository(client).files["README.md"].decode()
    assert not Answerer(find_model(NAME, FILES)).rules.version.startswith("own-")


def test_everything_meant_for_others_is_published_and_nothing_else(
    client: Hub, model: Path, report: dict[str, Any], dataset: Path
) -> None:
    (model / "dataset_report.json").write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    push_model(model, NAME, private=False)
    files = repository(client).files
    assert sorted(files) == sorted([".gitattributes", *PUBLISHED])
    for same in ("model.safetensors", "tokenizer.json", "training_log.jsonl", "figures/loss.png"):
        assert files[same] == (model / same).read_bytes()
    metrics, measured = json.loads(files["metrics.json"]), json.loads((model / "metrics.json").read_text())
    # What tells of the machine stays there.
    assert measured.keys() - metrics.keys() == {
        "model",
        "dataset_folder",
        "with_title",
        "near_duplicates",
        "verdicts",
        "answers_per_second",
        "characters_per_second",
        "timed_answers",
        "peak_memory_gb",
        "parameters",
        "size_mb",
        "engine",
    }
    assert all(metrics[name] == measured[name] for name in metrics.keys() - {"floors", "departments", "decoding"})
    assert metrics["decoding"] == {"num_beams": 1, "do_sample": False}
    assert metrics["floors"]["random"]["rougeL_char"] == measured["floors"]["random"]["rougeL_char"]
    for code in ("configuration_transformer.py", "modeling_transformer.py"):
        assert files[code] == (ROOT / "src/wenzhen/models/transformer" / code).read_bytes()
    names = ["男科/a|b.csv", "a\\|b.csv", "notes.csv"]
    secrets = ["13900000000", *names, *map(str, (model.parent, dataset.parent, Path.home()))]
    for path, content in (files | dict.fromkeys(["uploaded"], b"".join(client.objects.values()))).items():
        for secret in secrets:
            assert secret.encode() not in content, (path, secret)
    assert len(repository(client).commits) == 2


def test_the_command_line_answers_with_what_was_downloaded(
    client: Hub, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push_model(model, NAME, private=False)
    assert f"hf download {NAME} --local-dir doctor\nwenzhen answer doctor " in (
        repository(client).files["README.md"].decode()
    )
    snapshot_download(NAME, local_dir=tmp_path / "downloaded")
    question = "感冒了要吃药吗？"
    for folder in (model, tmp_path / "downloaded"):
        assert main(["answer", str(folder), question]) == 0
    printed = capsys.readouterr().out
    assert printed[: len(printed) // 2] == printed[len(printed) // 2 :] != ""


def test_a_later_push_leaves_nothing_of_an_earlier_one(client: Hub, model: Path) -> None:
    push_model(model, NAME, private=False)
    head = repository(client).commits[-1]
    stale = ("modeling_old.py", "model-00001-of-00002.safetensors", "figures/old.png")
    kept = ("docs/letter.txt", "scripts/mine.py", "figures/raw/mine.png")
    repository(client).commit("others", head.files | {path: File(b"other") for path in (*stale, *kept)})
    push_model(without(model, "metrics.json", "figures/loss.png"), NAME, private=False)
    files = repository(client).files
    gone = {"metrics.json", "figures/loss.png", *stale}
    assert set(files) == {".gitattributes", *PUBLISHED, *kept} - gone
    assert b"Not measured yet" in files["README.md"]
    assert b"figures/loss.png" not in files["README.md"]
    assert len(repository(client).commits) == 4


def test_pushing_the_same_again_changes_nothing(client: Hub, model: Path) -> None:
    first = push_model(model, NAME, private=False)
    commits = list(repository(client).commits)
    assert push_model(model, NAME, private=False) == first
    assert repository(client).commits == commits


def test_private_repository(client: Hub, model: Path) -> None:
    push_model(model, NAME, private=True)
    assert repository(client).private
    assert set(PUBLISHED) <= set(repository(client).files)
    push_model(model, "tester/open", private=False)
    with pytest.raises(UsageError, match="public repository already"):
        push_model(model, "tester/open", private=True)
    assert len(repository(client, "tester/open").commits) == 2


def test_a_dataset_of_the_same_name_is_another_repository(client: Hub, model: Path) -> None:
    HfApi(endpoint=client.url).create_repo(NAME, repo_type="dataset")
    push_model(model, NAME, private=True)
    assert repository(client).private
    assert list(client.repositories["dataset", NAME].files) == [".gitattributes"]


@pytest.mark.parametrize(
    ("method", "pattern", "status", "error"),
    [("POST", "/commit/", 500, RunError), ("POST", "/commit/", None, RunError), ("PUT", "/lfs/", 403, UsageError)],
)
def test_a_push_that_fails_publishes_nothing(
    client: Hub,
    model: Path,
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
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    client.fail(method, pattern, status, times=99)
    with pytest.raises(error) as caught:
        push_model(model, NAME, private=False)
    assert "\n" not in str(caught.value)
    assert list(repository(client).files) == [".gitattributes"]
    assert not list(scratch.iterdir())
    assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == before
    client.faults.clear()
    push_model(model, NAME, private=False)
    assert set(PUBLISHED) <= set(repository(client).files)


def test_who_pushes_at_the_same_time_is_not_mixed_in(
    client: Hub, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files = HfApi.list_repo_files

    def list_and_lose_the_race(*args: Any, **options: Any) -> list[str]:
        files = list_files(*args, **options)
        repository(client).commit("somebody else's", {"modeling_other.py": File(b"theirs")})
        return files

    monkeypatch.setattr(HfApi, "list_repo_files", list_and_lose_the_race)
    with pytest.raises(RunError, match="A commit has happened since"):
        push_model(model, NAME, private=False)
    assert repository(client).files == {"modeling_other.py": b"theirs"}


def test_token_that_only_reads(client: Hub, model: Path) -> None:
    client.accounts["hf_test"] = Account("tester", role="read")
    with pytest.raises(UsageError, match="may only read"):
        push_model(model, NAME, private=False)
    assert not client.repositories


def test_wrong_name_comes_before_the_model_is_loaded(client: Hub, model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(UsageError, match=r"OWNER/NAME.*got `doctor`"):
        push_model(model, "doctor", private=False)
    assert not client.requests


def export(folder: Path) -> None:
    (without(folder, "model.safetensors") / "model.bin").touch()


def make_dataset(folder: Path) -> None:
    (without(folder, *PUBLISHED[1:3], "model.safetensors", "recipe.yaml") / "dataset_dict.json").touch()


def make_tokenizer(folder: Path) -> None:
    without(folder, "config.json", "generation_config.json", "model.safetensors", "recipe.yaml")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "no model folder .*doctor; make one with"),
        (make_dataset, r"it is a dataset: push it with .*build_dataset\.py --output \S*doctor --push OWNER/NAME"),
        (make_tokenizer, "it is a tokenizer: push a model folder"),
        (export, r"lacking model\.safetensors; it is an export to CTranslate2: push the model folder"),
        (lambda folder: without(folder, "model.safetensors", "tokenizer.json"), "unfinished: .* --resume"),
        (lambda folder: without(folder, "recipe.yaml"), r"lacking recipe\.yaml; push the folder that wenzhen train"),
        (lambda folder: [shutil.rmtree(folder), folder.mkdir()], "name one that wenzhen train has made"),
    ],
    ids=["nothing", "dataset", "tokenizer", "CTranslate2", "unfinished", "checkpoint", "empty"],
)
def test_folder_that_is_no_models(client: Hub, model: Path, spoil: Callable[[Path], Any], message: str) -> None:
    spoil(model)
    with pytest.raises(UsageError, match=message) as caught:
        push_model(model, NAME, private=False)
    assert "\n" not in str(caught.value)
    assert not client.requests


def test_command_line(client: Hub, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", str(model), NAME, "--private"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"pushed: {url(client)}\n"
    assert printed.err == ""
    assert repository(client).private
    with pytest.raises(SystemExit, match="0"):
        main(["push", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "Never published: predictions.jsonl" in told
    assert "--private" in told
