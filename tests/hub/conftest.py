"""A Hub on loopback, and folders of a dataset and a model with all that they may hold."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from hub_client import SECRET
from hub_server import Hub, running_hub
from wenzhen.corpus.schema import DEPARTMENTS
from wenzhen.evaluation.evaluator import evaluate_model
from wenzhen.training.figure import draw_losses


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as server:
        yield server


@pytest.fixture
def client(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """Let this process take the server for the Hub, with its token, as a fresh process would by its environment."""
    for name, value in hub.environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "home/token"))
    return hub


@pytest.fixture
def report(dataset: Path) -> dict[str, Any]:
    """Return a report with every key, whose splits are the sample dataset's."""
    splits = json.loads((dataset / "report.json").read_text(encoding="utf-8"))["splits"]
    kept = sum(splits.values())
    clean, leaky = {"validation": 0, "test": 0}, {"validation": 3, "test": 7}
    length = {"mean": 21.25, "p50": 20, "p95": 40, "p99": 55, "max": 1234}
    return {
        "read": kept + 1_005,
        "kept": kept,
        "rejected": {"duplicate": 1_000, "empty answer": 5},
        "splits": splits,
        "departments": dict.fromkeys(DEPARTMENTS, 1),
        "per_department": {name: {"read": 2, "kept": 1, "rejected": 1, **splits} for name in DEPARTMENTS},
        "split": {"method": "groups", "test_share": 0.3, "validation_share": 0.05, "near_duplicates": 0.8},
        "seed": 42,
        "cleaning": {"html": 31, "control": None, "spaces": 32, "no_question": 33, "contacts": 34},
        "contacts": {"telephone": 11, "wechat": 12, "qq": 13, "link": 14, "email": 15},
        "too_long": {"question": 1_000, "answer": 2_000, "records": 16},
        "duplicates": {"exact": 1_000, "grouped": 17, "near": 18},
        "leakage": {"questions": clean, "answers": clean, "near_duplicates": {"validation": 1, "test": 2}},
        "random_split": splits,
        "leakage_of_random_split": {"questions": leaky, "answers": {"validation": 4, "test": 8}}
        | {"near_duplicates": leaky},
        "lengths": {"title": length, "question": length, "answer": length},
        "characters": {
            "total": 1_234_567,
            "different": 4_321,
            "coverage": {"0.99": 1_500, "0.999": 2_500, "0.9999": 3_500},
            "unknown_rate": {"validation": 0.00012, "test": 0.00034},
        },
        "files": [{"file": "男科/a|b.csv", "encoding": "gb18030", "records": kept + 1_005, "kept": kept}],
        "ignored_files": ["notes.csv"],
    }


@pytest.fixture
def folder(dataset: Path, report: dict[str, Any], tmp_path: Path) -> Path:
    """Return a dataset folder with a full report, pictures, facts and rejects."""
    copy = tmp_path / "dataset"
    shutil.copytree(dataset, copy)
    (copy / "report.json").write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    shutil.rmtree(copy / "figures")
    (copy / "figures").mkdir()
    for name in ("lengths.png", "departments.png"):
        (copy / "figures" / name).write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    (copy / "facts.json").write_text('["多喝水"]', encoding="utf-8")
    (copy / "rejects.jsonl").write_text(f'{{"raw": "{SECRET}"}}\n', encoding="utf-8")
    return copy


@pytest.fixture(scope="session")
def measured_folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model folder as a finished run and an evaluation on three questions leave it."""
    folder = tmp_path_factory.mktemp("measured") / "model"
    shutil.copytree(model_folder, folder)
    steps = [
        {"step": 1, "epoch": 0.5, "loss": 6.0},
        {"step": 1, "epoch": 0.5, "eval_loss": 5.25},
        {"step": 2, "epoch": 1.0, "eval_loss": 4.5},
        {"step": 3, "epoch": 1.5, "eval_loss": 4.75},
    ]
    (folder / "training_log.jsonl").write_text("".join(f"{json.dumps(step)}\n" for step in steps), encoding="utf-8")
    draw_losses({"doctor": steps}, folder / "figures/loss.png")
    evaluate_model(folder, folder, limit=24)
    return folder


@pytest.fixture
def model(measured_folder: Path, tmp_path: Path) -> Path:
    """Return a model folder with all that one may hold, and more."""
    folder = tmp_path / "doctor"
    shutil.copytree(measured_folder, folder)
    (folder / "predictions.jsonl").write_text(f'{{"question": "{SECRET}"}}\n', encoding="utf-8")
    (folder / "checkpoints/checkpoint-1").mkdir(parents=True)
    for name in ("checkpoints/checkpoint-1/optimizer.pt", "figures/attention.png", "notes.txt", "events.jsonl"):
        (folder / name).write_text(SECRET, encoding="utf-8")
    (folder / "foreign.py").write_text(f"# {SECRET}\nraise SystemExit('foreign code ran')\n", encoding="utf-8")
    return folder
