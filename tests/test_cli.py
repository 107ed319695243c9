"""The command line: what it refuses, and how."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from helpers import ROOT
from wenzhen.answering.answer import Answer
from wenzhen.cli import main
from wenzhen.errors import UsageError, run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "recipes/none.yaml"], "no recipe recipes/none.yaml"),
        (["train", "recipes/quickstart.yaml", "training.learning_rat=1"], "did you mean training.learning_rate?"),
        (["train", "recipes/quickstart.yaml", "--overwrite", "training.epochs"], "key=value"),
        (["train", "recipes/quickstart.yaml", "--overwrite", "--resume"], "choose one"),
        (
            ["train", "recipes/quickstart.yaml", "data.tokenizer=nowhere", "output=nowhere"],
            "nowhere holds no tokenizer.json",
        ),
        (["evaluate", "nowhere"], "no model folder nowhere; make one"),
        (["evaluate", "tests"], "tests is no model folder"),
        (["evaluate", "tests", "--limit", "0"], "--limit must be at least 1"),
        (["answer", "nowhere", "咳嗽怎么办？"], "no model folder nowhere"),
        (["answer", "tests", ""], "the question is empty"),
        (["answer", "tests"], "give either QUESTION or --file"),
        (["answer", "tests", "--file", "nothing.txt"], "no file nothing.txt"),
        (["answer", "tests", "咳嗽怎么办？", "--seed", "-1"], "--seed must be from 0 to 4294967295, got -1"),
    ],
)
def test_wrong_requests_get_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(main, arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_long_question_is_refused(model_folder: Path) -> None:
    with pytest.raises(UsageError, match="10,000 characters"):
        main(["answer", str(model_folder), "痛" * 10_000])


def test_answer_as_json(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", str(model_folder), "痔疮有什么症状？", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == {field.name for field in fields(Answer)}


def test_sampling_with_a_seed_repeats(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for seed in ("1", "1", "2"):
        main(["answer", str(model_folder), "痔疮有什么症状？", "--decoding", "sampling", "--seed", seed])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_evaluation_can_be_written_elsewhere(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in model_folder.iterdir()}
    assert main(["evaluate", str(model_folder), "--limit", "2", "--output", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert {path: path.stat().st_mtime_ns for path in model_folder.iterdir()} == before


def test_help_and_refusals_load_no_torch() -> None:
    script = (
        "import sys; from wenzhen.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'gradio'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script, "train", "--help"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-c", script, "train", "recipes/quickstart.yaml", "--wrong"], check=True)


def test_interrupt_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    assert run(interrupted, []) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_info_names_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["torch"] == torch.__version__
