"""Example answers while a model learns."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerControl, TrainerState, TrainingArguments

from helpers import ROOT, tiny_run
from processes import places, start
from small_models import PAIRS, POSITIONS, small_tokenizer, trained_model
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.corpus.loading import load_split
from wenzhen.recipe import Data, Generation, Recipe
from wenzhen.training.examples import ExampleAnswers
from wenzhen.training.initial_model import generation_config
from wenzhen.training.log import TrainingLog, read_log
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
SHORT = ("training.max_steps=4", "training.eval_steps=2", "training.logging_steps=1", "model.dropout=0.1")


class Rows(list[dict[str, str]]):
    """Rows of which a column can be taken, as of a dataset."""

    def __getitem__(self, name: Any) -> Any:
        return [row[name] for row in self]


def examples_of(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a log that hold examples."""
    lines = (folder / "training_log.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if "examples" in entry]


def test_a_model_that_knows_the_answers_gives_them_and_is_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = small_tokenizer()
    model = trained_model(tokenizer, steps=200, dropout=0.1).train()
    model.config.use_cache = False
    rows = Rows({"title": "无", "question": question, "answer": "参考"} for question in PAIRS)
    config = generation_config(Generation(), model.config, POSITIONS)
    data = Data(dataset="", tokenizer="", max_question_length=POSITIONS)
    log = TrainingLog(tmp_path)
    callback = ExampleAnswers(rows, data, tokenizer, config, log)
    state, random = TrainerState(epoch=1.5, global_step=1234), torch.get_rng_state()
    before = tokenizer.backend_tokenizer.to_str()
    for _ in range(2):
        callback.on_evaluate(TrainingArguments(output_dir=str(tmp_path)), state, TrainerControl(), model=model)
    first, second = examples_of(tmp_path)
    assert first == second == {"step": 1234, "epoch": 1.5, "examples": first["examples"]}
    assert [(e["question"], e["reference"], e["answer"]) for e in first["examples"]] == [
        (question, "参考", answer) for question, answer in PAIRS.items()
    ]
    assert model.training and model.config.use_cache is False
    assert torch.equal(torch.get_rng_state(), random)
    assert tokenizer.backend_tokenizer.to_str() == before
    printed = capsys.readouterr().out
    assert printed.startswith("answers at step 1,234\n")
    assert all(f"  answer     {answer}\n" in printed for answer in PAIRS.values())


def test_examples_change_nothing_and_stay_the_same(make_recipe: MakeRecipe, dataset: Path, tmp_path: Path) -> None:
    """With and without them, and after an interruption: the same losses, weights and answers."""
    with_them = train(make_recipe(f"output={tmp_path / 'with'}", *SHORT, "evaluation.examples=2"))
    without = train(make_recipe(f"output={tmp_path / 'without'}", *SHORT, "evaluation.examples=0"))
    assert examples_of(without) == []
    assert read_log(with_them) == read_log(without)
    weights = (with_them / "model.safetensors").read_bytes()
    assert (without / "model.safetensors").read_bytes() == weights

    shown = examples_of(with_them)
    assert [entry["step"] for entry in shown] == [2, 4]
    asked = [[example["question"] for example in entry["examples"]] for entry in shown]
    assert asked[0] == asked[1]
    rows = {row["question"]: row["answer"] for row in load_split(dataset, "validation")}
    for example in shown[0]["examples"]:
        assert example["reference"] == rows[example["question"]]
    # The last weights are those of the best measurement here: its answers are the model's own.
    losses = {entry["step"]: entry["eval_loss"] for entry in read_log(with_them) if "eval_loss" in entry}
    best = next(entry for entry in shown if entry["step"] == min(losses, key=losses.__getitem__))
    answers = dict(PyTorchEngine(with_them).generate(asked[0]))
    assert [example["answer"] for example in best["examples"]] == [answers[index].text for index in range(2)]

    log = (with_them / "training_log.jsonl").read_bytes()
    (with_them / "model.safetensors").unlink()
    checkpoint = with_them / "checkpoints" / "checkpoint-4"
    (checkpoint / "trainer_state.json").unlink()
    train(make_recipe(f"output={with_them}", *SHORT, "evaluation.examples=2"), resume=True)
    assert (with_them / "training_log.jsonl").read_bytes() == log
    assert (with_them / "model.safetensors").read_bytes() == weights


def test_beams_are_left_out(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    settings = ("training.max_steps=2", "generation.no_repeat_ngram_size=2", "evaluation.examples=1")
    greedy, beams = (
        examples_of(train(make_recipe(f"output={tmp_path / beams}", *settings, f"generation.num_beams={beams}")))
        for beams in "14"
    )
    assert greedy == beams != []


FSDP = ("accelerate.commands.accelerate_cli", "launch", "--config_file", str(ROOT / "recipes/accelerate/fsdp.yaml"))
FSDP += ("--num_processes=2", "--main_process_port=0", str(ROOT / "tests/invariant/fsdp_on_cpu.py"))


def arguments(dataset: Path, tokenizer_folder: Path, output: Path) -> list[str]:
    """Return the words of a run that measures the validation loss twice."""
    words = ["train", str(ROOT / "recipes/quickstart.yaml"), *tiny_run(dataset, tokenizer_folder), f"output={output}"]
    return [*words, "evaluation.questions=0", "evaluation.examples=2", "training.max_steps=2", "training.eval_steps=1"]


def test_one_of_several_processes_answers(dataset: Path, tokenizer_folder: Path, tmp_path: Path) -> None:
    words = ["-m", "wenzhen", *arguments(dataset, tokenizer_folder, tmp_path / "model")]
    programs = [start(words, tmp_path / str(rank), place) for rank, place in enumerate(places(2))]
    for program in programs:
        assert program.wait() == 0, program.said()
    assert [entry["step"] for entry in examples_of(tmp_path / "model")] == [1, 2]
    printed = "".join(program.printed() for program in programs)
    assert printed.count("answers at step") == 2
    assert printed.count("no process holds the whole model") == 0


def test_none_of_several_processes_answers_where_none_has_the_whole_model(
    dataset: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", *FSDP, *arguments(dataset, tokenizer_folder, tmp_path / "model")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    assert examples_of(tmp_path / "model") == []
    assert process.stdout.count("answers at step") == 0
    assert process.stdout.count("no process holds the whole model") == 1
