"""Folders that are not as we write them: somebody's code, another family, other tokens, impossible settings."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_models import change_json, save_marian_folder
from wenzhen.answering.engines import Engine, load_engine
from wenzhen.cli import main
from wenzhen.errors import UsageError, run
from wenzhen.models.loading import load_model
from wenzhen.tokenization import load_tokenizer

MODEL_COMMANDS = {
    "answer": ["answer", "{}", "疼"],
    "export": ["export", "{}"],
    "explain": ["explain", "attention", "{}", "--output", "{}-explained"],
    "positions": ["explain", "positions", "{}", "--output", "{}-explained"],
    "benchmark": ["benchmark", "generate", "--model", "{}", "--tokens", "2", "--device", "cpu"],
}
EVIL = """import pathlib
pathlib.Path(__file__).with_name("ran").touch()
"""
FAMILY = {"AutoConfig": "evil.C", "AutoModelForSeq2SeqLM": "evil.M"}
TOKENIZER = {"tokenizer_class": "EvilT", "auto_map": {"AutoTokenizer": ["evil.T", "evil.T"]}}


@pytest.fixture
def model(trained_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_folder, tmp_path / "model")


@pytest.fixture(params=["pytorch", "ctranslate2"])
def folder(request: pytest.FixtureRequest, trained_folder: Path, exported_folder: Path, tmp_path: Path) -> Path:
    """A copy of the model's folder, or of its export."""
    return shutil.copytree({"pytorch": trained_folder}.get(request.param, exported_folder), tmp_path / "model")


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs a command, which must say one line and ask nothing, and returns the line."""

    def refuse(command: list[str], folder: Path) -> str:
        monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asks whether to run code"))
        assert run(main, [argument.format(folder) for argument in command]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("error: ")
        assert output.err.count("\n") == 1
        return output.err

    return refuse


@pytest.mark.parametrize("command", MODEL_COMMANDS.values(), ids=MODEL_COMMANDS.keys())
def test_code_of_a_tokenizer_never_runs(model: Path, refusal: Callable[..., str], command: list[str]) -> None:
    (model / "evil.py").write_text(EVIL, encoding="utf-8")
    change_json(model / "tokenizer_config.json", **TOKENIZER)
    assert "cannot be loaded: it asks for code of its own (auto_map), which is never run" in refusal(command, model)
    assert not (model / "ran").exists()


def test_code_of_a_tokenizer_folder_never_runs(model: Path, refusal: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(model / name, folder / name)
    (folder / "evil.py").write_text(EVIL, encoding="utf-8")
    change_json(folder / "tokenizer_config.json", **TOKENIZER)
    message = f"the tokenizer in {folder} cannot be loaded: it asks for code of its own"
    with pytest.raises(UsageError, match=message):
        load_tokenizer(folder)
    assert message in refusal(["explain", "masks", "{}", "--output", "{}-explained"], folder)
    assert not (folder / "ran").exists()


def test_code_beside_an_export_never_runs(exported_folder: Path, refusal: Callable[..., str], tmp_path: Path) -> None:
    folder = shutil.copytree(exported_folder, tmp_path / "export")
    (folder / "evil.py").write_text(EVIL, encoding="utf-8")
    change_json(folder / "tokenizer_config.json", **TOKENIZER)
    assert "it asks for code of its own" in refusal(MODEL_COMMANDS["answer"], folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("command", MODEL_COMMANDS.values(), ids=MODEL_COMMANDS.keys())
def test_code_of_a_model_never_runs(model: Path, refusal: Callable[..., str], command: list[str]) -> None:
    (model / "evil.py").write_text(EVIL, encoding="utf-8")
    change_json(model / "config.json", model_type="nonesuch", auto_map=FAMILY)
    assert f"{model} holds a nonesuch model, not one of wenzhen's" in refusal(command, model)
    assert not (model / "ran").exists()


def test_code_of_generation_never_runs(model: Path) -> None:
    (model / "custom_generate").mkdir()
    (model / "custom_generate/generate.py").write_text(EVIL, encoding="utf-8")
    list(load_engine(model).generate(["疼"]))
    assert not (model / "custom_generate/ran").exists()


def test_a_model_of_ours_is_loaded_by_the_package_and_not_by_the_code_beside_it(model: Path) -> None:
    assert json.loads((model / "config.json").read_text(encoding="utf-8"))["auto_map"]
    for file in model.glob("*.py"):
        file.write_text(EVIL, encoding="utf-8")
    assert type(load_model(model)).__module__ == "wenzhen.models.transformer.modeling_transformer"
    assert not (model / "ran").exists()


@pytest.mark.parametrize("command", MODEL_COMMANDS.values(), ids=MODEL_COMMANDS.keys())
def test_other_families_are_refused_by_name(tmp_path: Path, refusal: Callable[..., str], command: list[str]) -> None:
    folder = save_marian_folder(tmp_path / "marian")
    assert refusal(command, folder) == f"error: {folder} holds a marian model, not one of wenzhen's\n"


@pytest.mark.parametrize("family", [None, 5, "t5"])
def test_families_without_weights_of_theirs_are_refused(model: Path, family: Any) -> None:
    change_json(model / "config.json", model_type=family)
    with pytest.raises(UsageError, match="not one of wenzhen's"):
        load_engine(model)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("eos_token_id", 5),
        ("eos_token_id", [3, 5]),
        ("eos_token_id", "3"),
        ("bos_token_id", 3),
        ("decoder_start_token_id", 0),
        ("pad_token_id", 1),
    ],
)
def test_special_tokens_that_are_not_the_tokenizers_are_refused(folder: Path, name: str, key: str, value: Any) -> None:
    change_json(folder / name, **{key: value})
    with pytest.raises(UsageError, match=rf"{key} is .* in .*{name}, but \d by the tokenizer|cannot be loaded"):
        load_engine(folder)


def answers(engine: Engine) -> list[str]:
    return [answer.text for _, answer in engine.generate(["疼", "晚上总睡不着，怎么办？"])]


@pytest.mark.parametrize(
    "changes",
    [
        {"eos_token_id": [3]},
        dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")),
        {"_from_model_config": True, "use_cache": False},
    ],
)
def test_the_same_tokens_said_otherwise_change_nothing(folder: Path, changes: dict[str, Any]) -> None:
    expected = answers(load_engine(folder))
    change_json(folder / "generation_config.json", **changes)
    assert answers(load_engine(folder)) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_beams": "4"}, "num_beams must be a whole number"),
        ({"stop_strings": "。"}, "stop_strings is none of wenzhen's"),
        ({"max_new_tokens": None}, "max_new_tokens is missing in"),
    ],
)
def test_impossible_settings_are_refused_when_the_model_loads(
    folder: Path, refusal: Callable[..., str], changes: dict[str, Any], message: str
) -> None:
    change_json(folder / "generation_config.json", **changes)
    assert f"error: the generation setting {message}" in refusal(MODEL_COMMANDS["answer"], folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_beams": 3, "length_penalty": 50},
        {"num_beams": 3, "length_penalty": -50},
        {"no_repeat_ngram_size": 10**30},
        {"do_sample": True, "top_k": 10**30},
        {"do_sample": True, "top_p": 0.001, "temperature": 0.01, "repetition_penalty": 0.01},
        {"do_sample": True, "temperature": 100, "repetition_penalty": 100},
        {"min_new_tokens": 10**30, "max_new_tokens": 3},
    ],
)
def test_the_last_values_that_are_allowed_work(folder: Path, changes: dict[str, Any]) -> None:
    change_json(folder / "generation_config.json", **changes)
    engine = load_engine(folder)
    assert len(answers(engine)) == 2
    assert isinstance("".join(engine.stream("疼")), str)


def test_an_output_whose_name_is_no_text_is_refused(model: Path, refusal: Callable[..., str]) -> None:
    line = refusal(["export", "{}", "--output", "{}-\udcff"], model)
    assert line == f"error: the output's name '{model}-\\udcff' is not valid text (UTF-8); name another folder\n"
