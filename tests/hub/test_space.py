"""A Space: what lies in it, that it serves as it lies there, and its way to a Hub."""

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import yaml
from gradio_client import Client
from huggingface_hub import constants
from transformers import AutoConfig

from clean_environment import make_environment
from helpers import ROOT
from hub_client import SECRET
from hub_server import Hub
from hub_store import File
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.departments import DepartmentGuesser
from wenzhen.answering.evidence import EvidenceIndex
from wenzhen.answering.evidence.building import build_index
from wenzhen.answering.export import export_model
from wenzhen.cli import push_space as verb
from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError, run
from wenzhen.hub.model import push_model
from wenzhen.hub.space import check_earlier, push_space, space_card, write_space
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.modeling_transformer import WenzhenForSequenceClassification
from wenzhen.tokenization import load_tokenizer, save_tokenizer

NAME = "tester/surgery"
QUESTION = "高血压平时要注意什么？"
SERVED_MODEL = [
    "README.md",
    "config.json",
    "configuration_transformer.py",
    "dataset_report.json",
    "figures/loss.png",
    "generation_config.json",
    "metrics.json",
    "model.safetensors",
    "modeling_transformer.py",
    "recipe.yaml",
    "tokenizer.json",
    "tokenizer_config.json",
]
# What the Hub takes for a colour.
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def below(files: dict[str, bytes], folder: str) -> list[str]:
    return sorted(path.removeprefix(folder) for path in files if path.startswith(folder))


def header(card: bytes) -> dict[str, Any]:
    return yaml.safe_load(card.decode().split("---\n")[1])


@contextmanager
def served(folder: Path, python: Path, home: Path) -> Iterator[str]:
    """Start the program of a Space, with no other environment than a server of the Hub's gives it; yield its URL."""
    home.mkdir()
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "GRADIO_SERVER_PORT": str(port)}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([python, "app.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout
        try:
            yield app.stdout.readline().split()[1]
        finally:
            app.terminate()


def test_a_space_serves_with_its_requirements_and_nothing_else(model_folder: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    assert write_space(str(model_folder), NAME, space, with_evidence=False) == ()
    python = make_environment(tmp_path / "environment", (space / "requirements.txt").read_text().splitlines())
    # Nothing of the project's can be imported from elsewhere.
    where = [python, "-c", "import wenzhen; print(wenzhen.__file__)"]
    found = subprocess.run(where, cwd=space, env={}, capture_output=True, text=True, check=True).stdout.strip()
    assert found == str(space / "wenzhen/__init__.py")
    assert subprocess.run(where, cwd=tmp_path, env={}, capture_output=True, check=False).returncode == 1
    with served(space, python, tmp_path / "home") as url:
        client = Client(url, verbose=False)
        assert client.predict(QUESTION, "greedy", api_name="/answer") == Answerer(model_folder).answer(QUESTION).text
    # Whoever asked left nothing behind.
    assert not [path for path, content in files_in(tmp_path / "home").items() if QUESTION.encode() in content]


def test_nothing_of_this_machine_or_of_patients_goes_along(
    model: Path, report: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setenv("PASSWORD", "swordfish")
    (model / "dataset_report.json").write_text(json.dumps(report), encoding="utf-8")
    write_space(str(model), NAME, tmp_path / "space", with_evidence=False)
    files = files_in(tmp_path / "space")
    assert below(files, "model/") == SERVED_MODEL
    assert {path.split("/")[0] for path in files} - {"LICENSE"} == {
        "README.md",
        "app.py",
        "model",
        "requirements.txt",
        "wenzhen",
    }
    secrets = (SECRET, "hf_mine", "swordfish", "notes.csv", "b.csv", str(tmp_path), str(ROOT), str(Path.home()))
    for path, content in files.items():
        for secret in secrets:
            assert secret.encode() not in content, (path, secret)


def test_the_source_of_the_package_is_whole_and_the_program_is_the_projects(model: Path, tmp_path: Path) -> None:
    write_space(str(model), NAME, tmp_path / "space", with_evidence=False)
    files = files_in(tmp_path / "space")
    source = files_in(ROOT / "src/wenzhen")
    wanted = {path for path in source if "__pycache__" not in path} - {"explain/fonts/README.md"}
    assert set(below(files, "wenzhen/")) == wanted
    assert all(files[f"wenzhen/{path}"] == source[path] for path in wanted)
    assert files["app.py"] == (ROOT / "app.py").read_bytes()


def test_header_is_what_the_hub_starts_a_space_by(model: Path, tmp_path: Path) -> None:
    write_space(str(model), NAME, tmp_path / "space", with_evidence=False)
    files = files_in(tmp_path / "space")
    data = header(files["README.md"])
    pins = dict(line.split("==") for line in files["requirements.txt"].decode().split())
    assert (data["sdk"], data["sdk_version"], data["app_file"]) == ("gradio", pins["gradio"], "app.py")
    assert data["python_version"] == "{}.{}".format(*sys.version_info)
    assert {data["colorFrom"], data["colorTo"]} <= COLOURS
    assert len(data["short_description"]) <= 60
    assert not [version for version in pins.values() if "+" in version]


def test_an_export_is_served_from_its_own_files(model: Path, tmp_path: Path) -> None:
    export_model(model, tmp_path / "export", "float32")
    config = tmp_path / "export/config.json"
    config.write_text(config.read_text().replace("{", f'{{"note": "{SECRET}",', 1), encoding="utf-8")
    write_space(str(tmp_path / "export"), NAME, tmp_path / "space", with_evidence=False)
    assert below(files_in(tmp_path / "space"), "model/") == [
        "config.json",
        "dataset_report.json",
        "figures/loss.png",
        "generation_config.json",
        "model.bin",
        "recipe.yaml",
        "shared_vocabulary.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert SECRET not in (tmp_path / "space/model/config.json").read_text()
    there, here = (Answerer(folder).answer(QUESTION) for folder in (tmp_path / "space/model", tmp_path / "export"))
    assert there.text == here.text != ""


def test_consultations_go_along_only_when_asked_for(model: Path, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"holds no evidence; make it with: wenzhen index {model}"):
        write_space(str(model), NAME, tmp_path / "space", with_evidence=True)
    meta = build_index(model, dataset)
    index = files_in(model / "evidence")
    for wanted in (False, True):
        (note,) = write_space(str(model), NAME, tmp_path / "space", with_evidence=wanted, overwrite=True)
        assert ("it holds" if wanted else "left out") in note and f"{meta['consultations']} consultations" in note
        files = files_in(tmp_path / "space")
        assert {path for path in files if path.startswith("model/evidence/")} == (
            {f"model/evidence/{path}" for path in index} if wanted else set()
        )
        assert ("**`model/evidence/` holds consultations" in files["README.md"].decode()) == wanted
    check_earlier(tmp_path / "space")
    question = load_split(dataset, "train")[0]["question"]
    (nearest, *_) = EvidenceIndex(tmp_path / "space/model/evidence").search(question)
    assert nearest.question == question


def test_the_classifier_of_departments_goes_along(model: Path, tmp_path: Path) -> None:
    classifier, tokenizer = model / "departments", load_tokenizer(model)
    classifier.mkdir()
    config = AutoConfig.from_pretrained(model, num_labels=3)
    config.id2label = {0: "内科", 1: "外科", 2: "男科"}
    save_with_code(WenzhenForSequenceClassification(config), classifier)
    save_tokenizer(tokenizer, classifier)
    shutil.copyfile(model / "predictions.jsonl", classifier / "predictions.jsonl")
    write_space(str(model), NAME, tmp_path / "space", with_evidence=False)
    assert below(files_in(tmp_path / "space"), "model/departments/") == [
        "config.json",
        "configuration_transformer.py",
        "model.safetensors",
        "modeling_transformer.py",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    check_earlier(tmp_path / "space")
    here, there = (
        DepartmentGuesser(folder).guess([QUESTION]) for folder in (classifier, tmp_path / "space/model/departments")
    )
    assert here == there
    assert {name for name, _ in there[0].ranking} == {"内科", "外科", "男科"}


def test_a_classifier_behind_a_link_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (model / "departments").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"departments/config\.json is a link, or lies behind one"):
        write_space(str(model), NAME, tmp_path / "space", with_evidence=False)


FOREIGN = "---\nsdk: gradio\ntags: [medical]\n---\n"


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        ("README.md", "# My thesis\n", "no README.md of a Space with the tag wenzhen"),
        ("README.md", FOREIGN, "no README.md of a Space with the tag wenzhen"),
        ("README.md", "---\nsdk: gradio\ntags: 5\n---\n", "no README.md of a Space with the tag wenzhen"),
        ("README.md", "---\n- [\n---\n", "no README.md of a Space with the tag wenzhen"),
        ("model/thesis.txt", "mine", "model/thesis.txt"),
        ("model/train.py", "mine", "model/train.py"),
        ("wenzhen/data/patients.csv", "mine", "wenzhen/data/patients.csv"),
        ("model/weights.json", None, "model/weights.json"),
    ],
)
def test_a_project_that_looks_like_a_space_is_never_replaced(
    tmp_path: Path, path: str, content: str | None, what: str
) -> None:
    space = tmp_path / "space"
    for name in ("README.md", "requirements.txt", "model/config.json", "wenzhen/__pycache__/words.cpython-311.pyc"):
        (space / name).parent.mkdir(parents=True, exist_ok=True)
        (space / name).touch()
    card = space_card(NAME, None, False)
    (space / "README.md").write_text(card, encoding="utf-8")
    check_earlier(space)
    (space / path).parent.mkdir(parents=True, exist_ok=True)
    (space / path).symlink_to("config.json") if content is None else (space / path).write_text(content)
    before = files_in(space)
    with pytest.raises(UsageError, match=rf"holds other files \({re.escape(what)}\); name a new or empty folder"):
        write_space("model", NAME, space, with_evidence=False, overwrite=True)
    assert files_in(space) == before


def test_what_is_pushed_is_what_a_dry_run_writes(client: Hub, model: Path, tmp_path: Path) -> None:
    url, _ = push_space(str(model), NAME, private=True, with_evidence=False)
    repository = client.repositories["space", NAME]
    assert url == f"{client.url}/spaces/{NAME}/tree/{repository.commits[-1].oid}"
    assert repository.private
    write_space(str(model), NAME, tmp_path / "space", with_evidence=False)
    assert repository.files == {**files_in(tmp_path / "space"), ".gitattributes": repository.files[".gitattributes"]}

    head = repository.commits[-1]
    stale = ("wenzhen/old.py", "wenzhen/models/transformer/old.py", "model/evidence/texts.arrow", "model/model.bin")
    repository.commit("others", head.files | dict.fromkeys((*stale, "letter.txt"), File(b"other")))
    push_space(str(model), NAME, private=False, with_evidence=False)
    assert repository.files == {path: file.content for path, file in head.files.items()} | {"letter.txt": b"other"}


def test_a_model_of_the_hub_is_named_by_its_commit(
    client: Hub, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    push_model(model, "tester/doctor", private=False)
    commit = client.repositories["model", "tester/doctor"].commits[-1].oid
    notes = write_space("tester/doctor", NAME, tmp_path / "space", with_evidence=False)
    assert "secret HF_TOKEN" in notes[0]
    files = files_in(tmp_path / "space")
    assert not below(files, "model/")
    assert header(files["README.md"])["models"] == ["tester/doctor"]

    monkeypatch.delenv("WENZHEN_MODEL", raising=False)
    monkeypatch.setattr("wenzhen.demo.main.main", lambda _: 0)
    for chosen in (f"tester/doctor@{commit}", "tester/other"):
        with pytest.raises(SystemExit, match="0"):
            runpy.run_path(str(tmp_path / "space/app.py"), run_name="__main__")
        assert os.environ["WENZHEN_MODEL"] == chosen
        # A variable in the Space's settings goes first.
        monkeypatch.setenv("WENZHEN_MODEL", "tester/other")

    with pytest.raises(UsageError, match="leave out --with-evidence"):
        write_space("tester/doctor", NAME, tmp_path / "space", with_evidence=True, overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}", "surgery", "--dry-run", "{new}"], "named OWNER/NAME"),
        (["{dataset}", NAME, "--dry-run", "{new}"], "is a dataset"),
        (["{new}", NAME, "--dry-run", "{new}"], "no model folder"),
        (["{model}", NAME, "--dry-run", "{model}"], "holds other files"),
        (["{model}", NAME, "--overwrite"], "give --dry-run FOLDER"),
        (["{model}", NAME], "HF_HUB_OFFLINE is set"),
    ],
)
def test_wrong_requests_are_one_line(
    arguments: list[str],
    message: str,
    model_folder: Path,
    dataset: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"model": model_folder, "dataset": dataset, "new": tmp_path / "new"}
    words = [argument.format(**places) for argument in arguments]
    assert run(command, words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def command(argv: Any) -> int:
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    return verb.run(parser.parse_args(["push-space", *argv]))
