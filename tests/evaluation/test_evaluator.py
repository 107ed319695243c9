"""Evaluation of a whole model folder."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.evaluation.evaluator import evaluate_model
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


def test_metrics_and_predictions(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    evaluation = evaluate_model(model_folder)
    rows = load_split(dataset, "test")
    assert evaluation.metrics.keys() >= KEYS
    assert evaluation.metrics["questions"] == len(rows) == len(evaluation.predictions)
    assert [row["answer"] for row in evaluation.predictions] == rows["answer"]
    evaluation.save(tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == evaluation.metrics
    lines = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == evaluation.predictions


def test_loss_is_that_of_every_answer_alone(model_folder: Path, dataset: Path) -> None:
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
    metrics = evaluate_model(model_folder, split="validation", batch_size=5).metrics
    assert metrics["loss"] == pytest.approx(nll / tokens, rel=1e-5)
    assert metrics["padded_loss"] == pytest.approx(padded / len(rows), rel=1e-5)


def test_limit_draws_the_same_questions_again(model_folder: Path) -> None:
    first, second = (evaluate_model(model_folder, limit=7) for _ in range(2))
    assert first == second
    assert first.metrics["questions"] == 7


def test_without_facts_there_is_no_fact_recall(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "dataset")
    (tmp_path / "dataset" / "facts.json").unlink()
    evaluation = evaluate_model(model_folder, dataset=tmp_path / "dataset", limit=2)
    assert evaluation.metrics["fact_recall"] is None


def test_folder_without_recipe_is_refused(model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "recipe.yaml").unlink()
    with pytest.raises(UsageError, match=r"lacks recipe\.yaml"):
        evaluate_model(tmp_path / "model")
