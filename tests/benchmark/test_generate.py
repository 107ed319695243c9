"""The benchmark of answers, through its command and by its parts."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

from small_models import change_json
from wenzhen.answering.decoding import DECODINGS
from wenzhen.benchmark import backends
from wenzhen.benchmark.backends import Task, TorchBackend
from wenzhen.benchmark.generate import Case, Plan, benchmark_generation
from wenzhen.benchmark.peer import make_marian
from wenzhen.benchmark.subject import Subject, load_subject, random_subject, sample_questions
from wenzhen.benchmark.table import generation_table
from wenzhen.cli import main
from wenzhen.errors import UsageError, run
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

POSITIONS = 40
ABSENT = ("datasets", "pyarrow", "pandas", "evaluate", "gradio", "ctranslate2")
ENGINES = ["PyTorch", "CTranslate2 int8", "CTranslate2 float32"]


def tiny_subject(questions: int, **changes: object) -> Subject:
    shape = {"d_model": 16, "d_ff": 32, "attention_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    config = WenzhenConfig(vocab_size=600, max_position_embeddings=POSITIONS, **shape, **changes)
    return random_subject(config, questions)


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Two threads for matrices this small wait for each other, on a busy machine for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "available_cores", lambda: 1)
        yield


@pytest.fixture(scope="module")
def result(model_folder: Path) -> dict[str, Any]:
    """What the command prints for a tiny model: one question greedily, then three with beams."""
    arguments = ["--model", str(model_folder), "--tokens", "9", "--batch-size", "1", "3", "--repeats", "2"]
    types = ["--compute-type", "int8", "float32"]
    output = StringIO()
    with redirect_stdout(output):
        assert main(["benchmark", "generate", *arguments, *types, "--device", "cpu", "--json"]) == 0
    return json.loads(output.getvalue())


def test_every_case_says_how_fast_and_compared_with_what(result: dict[str, Any]) -> None:
    assert [(case["batch_size"], case["decoding"], case["num_beams"]) for case in result["cases"]] == [
        (1, "greedy", 1),
        (3, "beam", 4),
    ]
    for case in result["cases"]:
        assert list(case["engines"]) == ENGINES
        assert case["ours"] == {"engine": case["ours"]["engine"], **case["engines"][case["ours"]["engine"]]}
        speeds = {name: engine["tokens_per_second"] for name, engine in case["engines"].items()}
        assert case["ours"]["tokens_per_second"] == max(speeds.values())
        assert case["ratio"] == case["ours"]["ratio"]
        assert case["marian"]["ratio"]["marian"] == {"median": 1.0, "low": 1.0, "high": 1.0}
        for engine in (case["marian"], *case["engines"].values()):
            assert 0 < engine["low"] <= engine["tokens_per_second"] <= engine["high"]
            assert 0 < engine["ratio"]["marian"]["low"] <= engine["ratio"]["marian"]["high"]
            assert 1 <= engine["threads"] <= case["machine"]["cores"]
        assert case["new_tokens"] == 9
        assert case["machine"].keys() >= {"cpu", "cores", "memory_gb", "load", "accelerator"}
        assert case["versions"]["torch"] == torch.__version__


def test_equal_weights_write_equal_answers(result: dict[str, Any]) -> None:
    assert result["equal_answers"] == {"PyTorch": 1.0, "CTranslate2 float32": 1.0}
    for case in result["cases"]:
        assert case["engines"]["PyTorch"]["equal_answers"] == 1.0


def test_the_time_is_split_without_rest(result: dict[str, Any]) -> None:
    for case in result["cases"]:
        for name, engine in {"MarianMTModel": case["marian"], **case["engines"]}.items():
            parts = engine["seconds"]
            if name.startswith("CTranslate2"):
                assert parts.keys() == {"encoder_and_first_token", "later_tokens"}
            else:
                assert parts.keys() == {"encoder", "decoder", "output", "search"}
                assert min(parts.values()) > 0


def test_the_table_shows_what_the_json_holds(result: dict[str, Any]) -> None:
    head, *tables = generation_table(result).split("\nbatch ")
    assert f"{result['model']['parameters']:,} parameters" in head
    assert "PyTorch 100%, CTranslate2 float32 100%" in head
    for case, table in zip(result["cases"], tables, strict=True):
        assert table.startswith(f"{case['batch_size']}, {case['decoding']}")
        for name, engine in {"MarianMTModel": case["marian"], **case["engines"]}.items():
            line = next(line for line in table.splitlines() if line.startswith(f"  {name}  "))
            ratio = engine["ratio"]["marian"]
            assert f" {engine['tokens_per_second']:,.0f} " in line
            assert f"{ratio['median']:.2f}  ({ratio['low']:.2f}-{ratio['high']:.2f})" in line


def test_the_fastest_number_of_threads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeper(TorchBackend):
        def answer(self, inputs: object, task: Task) -> list[list[int]]:
            tried.append(self.threads)
            time.sleep({1: 0.03, 2: 0.02, 4: 0.001, 6: 0.02}[self.threads])
            return []

    tried: list[int] = []
    monkeypatch.setattr(backends, "available_cores", lambda: 6)
    sleeper = Sleeper("sleeper", tiny_subject(1).model)
    sleeper.prepare({}, Task(DECODINGS["greedy"], 500))
    assert sorted(set(tried)) == [1, 2, 4, 6]
    assert sleeper.threads == 4


def test_runs_without_the_data_libraries_and_ctranslate2(model_folder: Path) -> None:
    script = (
        f"import os, sys; sys.modules.update(dict.fromkeys({ABSENT!r}))\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from wenzhen.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["benchmark", "generate", "--model", str(model_folder), "--tokens", "3", "--batch-size", "2", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, "--repeats", "1"], check=True, capture_output=True, text=True
    )
    result = json.loads(done.stdout)
    (case,) = result["cases"]
    assert list(case["engines"]) == ["PyTorch"]
    (note,) = result["notes"]
    assert note.startswith("CTranslate2 is left out: ")


def test_answers_fill_the_positions_and_not_more() -> None:
    plan = Plan((Case(2, "greedy"),), new_tokens=POSITIONS, repeats=1)
    subject = tiny_subject(plan.questions)
    assert max(map(len, subject.questions)) == POSITIONS
    assert benchmark_generation(subject, plan)["equal_answers"]["CTranslate2 float32"] == 1.0
    with pytest.raises(UsageError, match=f"{POSITIONS} positions: it cannot write {POSITIONS + 1} tokens"):
        benchmark_generation(subject, Plan(plan.cases, new_tokens=POSITIONS + 1))


def test_no_answer_ends_early_and_threads_are_given_back() -> None:
    subject = tiny_subject(3)
    with torch.no_grad():
        # Without the suppression, every first token would be the end.
        subject.model.model.shared.weight[subject.model.config.eos_token_id] *= 100
    before = torch.get_num_threads()
    both = [TorchBackend("ours", subject.model), TorchBackend("peer", make_marian(subject.model))]
    for search in ("greedy", "beam"):
        task = Task(DECODINGS[search], 7)
        answers = [backend.answer(backend.inputs(subject.questions), task) for backend in both]
        assert answers[0] == answers[1]
        assert [len(answer) for answer in answers[0]] == [7, 7, 7]
        assert not any(3 in answer[:-1] for answer in answers[0])
    plan = Plan((Case(1, "greedy"),), new_tokens=2, repeats=1)
    benchmark_generation(tiny_subject(plan.questions), plan)
    assert torch.get_num_threads() == before


def test_questions_are_the_sample_corpus_own_and_stay_the_same() -> None:
    questions = sample_questions(12)
    assert len(set(questions)) == 12
    assert sample_questions(30)[:12] == questions
    subject = tiny_subject(12)
    unknown = subject.tokenizer.unk_token_id
    assert all(ids[-1] == 3 and unknown not in ids for ids in subject.questions)


def test_a_model_without_a_peer_is_refused() -> None:
    plan = Plan((Case(1, "greedy"),), new_tokens=2, repeats=1)
    with pytest.raises(UsageError, match="no norm pre"):
        benchmark_generation(tiny_subject(plan.questions, norm="pre"), plan)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nowhere"], "no model folder nowhere; make one"),
        (["--model", "{empty}"], "is no model folder: it lacks config.json"),
        (["--tokens", "0"], "--tokens must be at least 1, got 0"),
        (["--batch-size", "4", "-1"], "--batch-size must be at least 1, got -1"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--model", "{model}", "--tokens", "1000"], "it cannot write 1,000 tokens"),
        (
            ["--model", "{model}", "--tokens", "2", "--compute-type", "int3"],
            "no compute type int3 here; there are",
        ),
    ],
)
def test_wrong_requests_get_one_clear_line(
    arguments: list[str],
    message: str,
    model_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [argument.format(empty=tmp_path, model=model_folder) for argument in arguments]
    assert run(main, ["benchmark", "generate", "--device", "cpu", *filled]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", ["generate", "train"])
def test_a_missing_gpu_is_said(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, ["benchmark", kind, "--device", "cuda"]) == 2
    assert "PyTorch finds no GPU here" in capsys.readouterr().err


@pytest.mark.parametrize("torn", [True, False])
def test_random_weights_are_never_measured_for_a_models(model_folder: Path, tmp_path: Path, torn: bool) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "model")
    if torn:
        change_json(folder / "config.json", encoder_layers=3)
        message = "are not those of its config"
    else:
        make_marian(load_subject(folder, 1).model).save_pretrained(folder)
        message = "holds a marian model, not one of wenzhen's"
    with pytest.raises(UsageError, match=message):
        load_subject(folder, 1)


def test_a_broken_model_is_refused(model_folder: Path, tmp_path: Path) -> None:
    for file in model_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_subject(tmp_path, 1)
