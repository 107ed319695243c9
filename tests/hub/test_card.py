"""The model card."""

import json
import shutil
from pathlib import Path

from huggingface_hub import ModelCard

from wenzhen.evaluation.evaluator import evaluate_model
from wenzhen.evaluation.table import metric_rows
from wenzhen.hub.card import write_model_card


def test_card_states_the_metrics_and_the_limits(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    evaluation = evaluate_model(folder, limit=3)
    evaluation.save(folder)
    write_model_card(folder, metric_rows(evaluation.metrics))
    card = ModelCard.load(folder / "README.md")
    results = {result.metric_type: result.metric_value for result in card.data.eval_results}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert results["bleu"] == metrics["bleu4_char"]
    assert card.data.language == "zh"
    assert f"| loss | {metrics['loss']:.4f} |" in card.text
    assert "3 questions of the test split of `dataset`." in card.text
    assert "it is no doctor" in card.text


def test_card_before_any_measurement(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    write_model_card(folder, [])
    assert "Not measured yet" in ModelCard.load(folder / "README.md").text
