"""Exported folders: what lies in them, when they appear, and what the commands make of them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from small_models import PAIRS, save_model_folder, small_model, small_tokenizer
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.engines import load_engine
from wenzhen.answering.engines.ctranslate2 import COMPUTE_TYPES
from wenzhen.answering.export import TOLERANCES, export_model, probes
from wenzhen.cli import main
from wenzhen.cli.export import QUANTIZATIONS
from wenzhen.errors import RunError, UsageError, run

CARD = """---
library_name: transformers
tags: [wenzhen, custom_code]
model_name: model
model-index:
- name: model
  results:
  - task: {type: text-generation}
    dataset: {type: mine, name: mine}
    metrics: [{type: bleu, value: 12.5}]
---
# model

A machine writes every answer.

## Use

With PyTorch.
"""
OTHERS = {
    "README.md": CARD,
    "recipe.yaml": "output: outputs/model\n",
    "dataset_report.json": "{}",
    "training_log.jsonl": "",
    "metrics.json": '{"bleu4_char": 12.5}',
    "predictions.jsonl": "",
    "figures/loss.png": "",
}


@pytest.fixture
def model(trained_folder: Path, tmp_path: Path) -> Path:
    """A model folder with everything that training and measuring leave."""
    folder = shutil.copytree(trained_folder, tmp_path / "model")
    (folder / "figures").mkdir()
    for name, content in OTHERS.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def test_export_by_its_command(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(model)
    assert run(main, ["export", ".", "--to", "ctranslate2"]) == 0
    output = tmp_path / "model-ct2-int8"
    assert capsys.readouterr().out.startswith(f"export: {output}  (model.bin of 0.1 MB; log-probabilities within 0.")
    assert sorted(str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()) == [
        "README.md",
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
    (question, answer), *_ = PAIRS.items()
    assert main(["answer", str(output), question]) == 0
    assert capsys.readouterr().out.startswith(f"{answer}\n")
    assert run(main, ["export", str(model)]) == 2
    assert "already holds a result; add --overwrite" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert (
        run(main, ["export", "model", "--quantization", "float16", "--output", "model-ct2-int8", "--overwrite"]) == 0
    )
    assert json.loads((output / "config.json").read_text(encoding="utf-8"))["quantization"] == "float16"


@pytest.mark.parametrize("links", [True, False])
def test_index_and_classifier_go_along(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr("wenzhen.answering.export.os.link", refuse)
    taken = ("evidence/meta.json", "evidence/postings/data.npy", "departments/model.safetensors")
    left = ("departments/checkpoints/checkpoint-1/model.safetensors", "departments/training_log.jsonl")
    for name in (*taken, *left):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text(name, encoding="utf-8")
    output = tmp_path / "small"
    for overwrite in (False, True):
        export_model(model, output, "float32", overwrite)
        companions = [path for name in ("evidence", "departments") for path in (output / name).rglob("*")]
        files = {str(path.relative_to(output)): path for path in companions if path.is_file()}
        assert {name: path.read_text(encoding="utf-8") for name, path in files.items()} == {n: n for n in taken}
        assert all(path.samefile(model / name) == links for name, path in files.items())


def test_card_is_the_original_s_with_what_is_different(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export_model(model, tmp_path / "small", "int8")
    _, header, text = (tmp_path / "small" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    # The original's results are not the export's.
    assert yaml.safe_load(header) == {
        "library_name": "ctranslate2",
        "tags": ["wenzhen", "ctranslate2"],
        "model_name": "small",
    }
    assert text.startswith("# small\n\nA machine writes every answer.\n\n## An export to CTranslate2\n")
    assert text.endswith("\n\n## Use\n\nWith PyTorch.\n")
    assert "the weights of `model` as int8" in text
    monkeypatch.chdir(tmp_path)
    exec(text.split("```python\n")[1].split("```")[0].replace("高血压平时要注意什么？", next(iter(PAIRS))), {})
    assert capsys.readouterr().out == f"{next(iter(PAIRS.values()))}\n"


def test_configuration_is_the_original_s_beside_ctranslate2_s(model: Path, tmp_path: Path) -> None:
    export_model(model, tmp_path / "export", "float32")
    config, expected = (
        json.loads((folder / "config.json").read_text(encoding="utf-8")) for folder in (tmp_path / "export", model)
    )
    missing = {key: value for key, value in expected.items() if config.get(key) != value}
    assert missing.keys() == {"architectures", "auto_map", "model_type"}
    assert config["quantization"] == "float32"
    assert config["layer_norm_epsilon"] == expected["layer_norm_eps"]


def test_card_that_is_missing_or_without_header(model: Path, tmp_path: Path) -> None:
    for number, content in enumerate([None, "# mine\n"]):
        (model / "README.md").unlink()
        if content:
            (model / "README.md").write_text(content, encoding="utf-8")
        export_model(model, tmp_path / str(number), "float32")
        assert "wenzhen answer" in (tmp_path / str(number) / "README.md").read_text(encoding="utf-8")
        (model / "README.md").touch()
    (model / "README.md").write_text("---\n[\n---\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"the header of .*README\.md cannot be read"):
        export_model(model, tmp_path / "broken", "float32")
    assert not (tmp_path / "broken").exists()


def test_exported_model_is_measured_like_any_other(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "export"
    export_model(model_folder, output, "float32")
    card = (output / "README.md").read_bytes()
    metrics = []
    for folder in (model_folder, output):
        assert main(["evaluate", str(folder), "--limit", "5", "--output", str(tmp_path / folder.name), "--json"]) == 0
        metrics.append(json.loads(capsys.readouterr().out))
    assert metrics[1].keys() == metrics[0].keys()
    assert metrics[1]["loss"] == pytest.approx(metrics[0]["loss"], abs=1e-4)
    assert metrics[1]["bleu4_char"] == metrics[0]["bleu4_char"]
    assert (output / "metrics.json").is_file()
    assert (output / "README.md").read_bytes() == card
    assert Answerer(output).answer("痔疮有什么症状？").text == Answerer(model_folder).answer("痔疮有什么症状？").text


def test_export_that_computes_something_else_never_appears(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("wenzhen.answering.conversion.ACTIVATIONS", {"relu": 3})
    with pytest.raises(RunError, match=r"computes something else: a token's log-probability is [\d.]+ off"):
        export_model(model, tmp_path / "export", "float32")
    assert sorted(tmp_path.iterdir()) == before
    assert run(main, ["export", str(model), "--quantization", "float32"]) == 1
    assert capsys.readouterr().err.startswith("failed: the export of ")


def test_weights_that_are_no_numbers_never_appear(tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    model = small_model(tokenizer)
    model.lm_head.weight.data[7] = float("nan")
    folder = save_model_folder(model, tokenizer, tmp_path / "model")
    with pytest.raises(RunError, match="is nan off"):
        export_model(folder, tmp_path / "export", "float32")


def test_additive_attention_is_refused(tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    folder = save_model_folder(small_model(tokenizer, attention_score="additive"), tokenizer, tmp_path / "model")
    with pytest.raises(UsageError, match="attention_score is additive"):
        export_model(folder, tmp_path / "export")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("model", "output", "message"),
    [
        ("nowhere/model", None, "no model folder nowhere/model"),
        ("exported", None, "exported to CTranslate2, which PyTorch cannot load"),
        ("model", "model", "holds other files"),
        ("model", "taken", "holds other files"),
        ("model", "exported", "already holds a result; add --overwrite"),
        ("taken", None, "is no model folder"),
    ],
)
def test_wrong_requests_get_one_clear_line(
    model: str,
    output: str | None,
    message: str,
    trained_folder: Path,
    exported_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "model").symlink_to(trained_folder)
    (tmp_path / "exported").symlink_to(exported_folder)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    assert run(main, ["export", model, *(["--output", output] if output else [])]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("longest", [1, 2, 48])
def test_probes_reach_from_the_shortest_to_the_longest(longest: int) -> None:
    inputs, labels = probes(60, longest, end=3)
    for rows in (inputs, labels):
        assert {1, longest} == {len(ids) for ids in rows} & {1, longest}
        assert all(3 < token < 60 for ids in rows for token in ids[:-1])
    assert all(ids[-1] == 3 for ids in (*inputs, *labels[:-1]))
    assert labels[-1][-1] != 3
    assert np.array_equal(np.concatenate(inputs), np.concatenate(probes(60, longest, end=3)[0]))


def test_every_quantization_has_its_bounds() -> None:
    assert set(QUANTIZATIONS) == TOLERANCES.keys() == COMPUTE_TYPES["cpu"].keys() == COMPUTE_TYPES["cuda"].keys()


def test_engine_of_an_export_serves_the_answerer(exported_folder: Path) -> None:
    answerer = Answerer(exported_folder)
    with pytest.raises(UsageError, match="has 48 characters; this model reads at most 47"):
        answerer.answer("疼" * 48)
    assert answerer.answer("疼龘").unknown == "龘"
    assert load_engine(exported_folder).max_question_length == 47
