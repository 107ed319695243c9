"""Evaluation of a whole model folder, and of answers that were written before."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from wenzhen.answering.decoding import decoding_named
from wenzhen.answering.engines import Engine, load_engine
from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.evaluation.evaluator import evaluate_model, evaluate_predictions
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.predictions import read_predictions
from wenzhen.tokenization import load_tokenizer

KEYS = {
    "split",
    "questions",
    "loss",
    "perplexity",
    "padded_loss",
    "bleu4_char",
    "rougeL_char",
    "distinct2_char",
    "ended",
    "repetitive",
    "fact_recall",
}
# What two measurements of the same may differ in.
TIMES = ("answers_per_second", "characters_per_second", "peak_memory_gb", "timed_answers")


def timeless(metrics: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metrics.items() if key not in TIMES}


def test_metrics_and_predictions(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    metrics = evaluate_model(model_folder, tmp_path)
    rows = load_split(dataset, "test")
    predictions = read_predictions(tmp_path / "predictions.jsonl")
    assert metrics.keys() >= KEYS
    assert metrics["questions"] == len(rows) == len(predictions)
    assert [row.answer for row in predictions] == rows["answer"]
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == metrics
    assert metrics["floors"].keys() == FLOORS.keys()
    assert sum(part["questions"] for part in metrics["departments"].values()) == len(rows)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["metrics.json", "predictions.jsonl"]


def test_loss_is_that_of_every_answer_alone(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    """Batches, padding and order change nothing: the loss is the sum over answers, each scored by itself."""
    model = AutoModelForSeq2SeqLM.from_pretrained(model_folder).eval()
    tokenizer = load_tokenizer(model_folder)
    rows = load_split(dataset, "validation")
    nll = tokens = padded = 0.0
    for question, answer in zip(rows["question"], rows["answer"], strict=True):
        labels = torch.tensor([tokenizer(answer)["input_ids"]])
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer(question)["input_ids"]]), labels=labels).logits
        losses = -logits.log_softmax(-1).gather(2, labels.unsqueeze(2)).squeeze()
        nll += losses.sum().item()
        tokens += len(losses)
        padded += losses.sum().item() / 200
    metrics = evaluate_model(model_folder, tmp_path, split="validation", batch_size=5, floors=False)
    assert metrics["floors"] == {}
    assert metrics["loss"] == pytest.approx(nll / tokens, rel=1e-5)
    assert metrics["padded_loss"] == pytest.approx(padded / len(rows), rel=1e-5)


def test_limit_draws_the_same_questions_again(model_folder: Path, tmp_path: Path) -> None:
    first, second = (timeless(evaluate_model(model_folder, tmp_path / name, limit=7)) for name in "ab")
    assert first == second
    assert first["questions"] == 7


def test_a_department_is_measured_alone(model_folder: Path, tmp_path: Path) -> None:
    metrics = evaluate_model(model_folder, tmp_path, department="儿科", limit=3, floors=False)
    assert (metrics["department"], metrics["limit"], metrics["questions"]) == ("儿科", 3, 3)
    assert {row.department for row in read_predictions(tmp_path / "predictions.jsonl")} == {"儿科"}


def test_questions_of_a_file_are_asked_with_and_without_answers(
    model_folder: Path, dataset: Path, tmp_path: Path
) -> None:
    row = load_split(dataset, "train")[0]
    file = tmp_path / "own.jsonl"
    file.write_text(
        json.dumps({"question": row["question"], "answer": row["answer"]}, ensure_ascii=False), encoding="utf-8"
    )
    metrics = evaluate_model(model_folder, tmp_path / "out", file=file)
    assert (metrics["dataset"], metrics["split"], metrics["questions"]) == ("own.jsonl", "file", 1)
    # It stands in the training split: so does its answer.
    assert metrics["floors"]["nearest_tfidf"]["rougeL_char"] == pytest.approx(100, abs=1e-5)
    assert metrics["near_duplicates"].keys() == {"with"}
    bare = tmp_path / "bare.txt"
    bare.write_text("头疼怎么办？", encoding="utf-8")
    metrics = evaluate_model(model_folder, tmp_path / "out", file=bare)
    assert metrics["floors"] == {}
    assert "loss" not in metrics and "bleu4_char" not in metrics
    assert metrics["questions"] == 1


def test_without_facts_there_is_no_fact_recall(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "dataset")
    (tmp_path / "dataset" / "facts.json").unlink()
    metrics = evaluate_model(model_folder, tmp_path, dataset=tmp_path / "dataset", limit=2)
    assert metrics["fact_recall"] is None


def test_folder_without_recipe_is_refused(model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "recipe.yaml").unlink()
    with pytest.raises(UsageError, match=r"lacks recipe\.yaml"):
        evaluate_model(tmp_path / "model", tmp_path / "out")


def test_metrics_are_counted_again_without_the_model(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    measured = evaluate_model(model_folder, tmp_path / "model", limit=20)
    again = evaluate_predictions(tmp_path / "model/predictions.jsonl", dataset=dataset, output=tmp_path / "again")
    assert again == measured
    assert json.loads((tmp_path / "again/metrics.json").read_text(encoding="utf-8")) == again
    fewer = evaluate_predictions(tmp_path / "model/predictions.jsonl", dataset=dataset, department="内科")
    assert fewer["questions"] == measured["departments"]["内科"]["questions"]
    assert fewer["bleu4_char"] == measured["departments"]["内科"]["bleu4_char"]
    (tmp_path / "model/metrics.json").unlink()
    bare = evaluate_predictions(tmp_path / "model/predictions.jsonl")
    assert (bare["floors"], bare["fact_recall"], bare["loss"]) == ({}, None, measured["loss"])


class StoppedError(Exception):
    """Somebody pulled the plug."""


def test_a_stopped_evaluation_goes_on_behind_its_answers(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate_model(model_folder, tmp_path / "whole", limit=12, batch_size=4, floors=False)
    generate = Engine.generate
    asked: list[int] = []

    def generate_some(self: Engine, questions: list[str], *args: Any) -> Any:
        asked.append(len(questions))
        for number, answer in enumerate(generate(self, questions, *args)):
            if len(asked) == 1 and number == 5:
                raise StoppedError
            yield answer

    monkeypatch.setattr(Engine, "generate", generate_some)
    how = {"limit": 12, "batch_size": 4, "floors": False}
    with pytest.raises(StoppedError):
        evaluate_model(model_folder, tmp_path / "out", **how)
    assert (tmp_path / "out/predictions.partial.jsonl").is_file()
    assert not (tmp_path / "out/predictions.jsonl").exists()
    resumed = evaluate_model(model_folder, tmp_path / "out", **how)
    assert asked == [12, 7]
    assert timeless(resumed) == timeless(whole)
    assert resumed["timed_answers"] == 7
    assert (tmp_path / "out/predictions.jsonl").read_bytes() == (tmp_path / "whole/predictions.jsonl").read_bytes()
    assert not (tmp_path / "out/predictions.partial.jsonl").exists()


def test_a_draft_of_another_decoding_is_not_gone_on_with(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    generate = Engine.generate

    def count(self: Engine, questions: list[str], *args: Any) -> Any:
        asked.append(len(questions))
        if len(asked) == 1:
            yield next(iter(generate(self, questions, *args)))
            raise StoppedError
        yield from generate(self, questions, *args)

    monkeypatch.setattr(Engine, "generate", count)
    with pytest.raises(StoppedError):
        evaluate_model(model_folder, tmp_path, limit=3, floors=False)
    beam = decoding_named("beam:num_beams=2")
    metrics = evaluate_model(model_folder, tmp_path, limit=3, floors=False, decoding=beam)
    assert asked == [3, 3]
    assert metrics["decoding"] == {"num_beams": 2, "do_sample": False, "description": "2 beams, α 0.75"}


def test_what_answering_took_is_told(model_folder: Path, tmp_path: Path) -> None:
    metrics = evaluate_model(model_folder, tmp_path, limit=3, floors=False)
    model = load_engine(model_folder).model
    assert metrics["parameters"] == model.num_parameters()
    assert metrics["size_mb"] == round((model_folder / "model.safetensors").stat().st_size / 1e6, 1)
    assert metrics["engine"] == "PyTorch"
    assert metrics["timed_answers"] == 3
    characters = sum(len(row.prediction) for row in read_predictions(tmp_path / "predictions.jsonl"))
    assert metrics["characters_per_second"] / metrics["answers_per_second"] == pytest.approx(characters / 3)
    assert 0.05 < metrics["peak_memory_gb"] < 20
