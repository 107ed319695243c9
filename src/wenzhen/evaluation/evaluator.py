"""Measuring a model on a split of its dataset."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from wenzhen.answering.decoding import Decoding
from wenzhen.answering.engines import load_engine
from wenzhen.corpus.loading import load_split, split_leakage
from wenzhen.corpus.schema import FACTS_FILE, question_text
from wenzhen.errors import UsageError
from wenzhen.evaluation.metrics import answer_metrics
from wenzhen.models import METRICS_FILE, PREDICTIONS_FILE
from wenzhen.models.likelihood import likelihood_metrics
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe


@dataclass(frozen=True)
class Evaluation:
    """A model's metrics, under the names that `metrics.json` holds, and the answers they were counted on."""

    metrics: dict[str, Any]
    predictions: list[dict[str, Any]]

    def save(self, folder: Path) -> None:
        """Write `metrics.json` and `predictions.jsonl`."""
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.predictions)
        (folder / PREDICTIONS_FILE).write_text(lines, encoding="utf-8")
        text = json.dumps(self.metrics, ensure_ascii=False, indent=2)
        (folder / METRICS_FILE).write_text(text + "\n", encoding="utf-8")


def evaluate_model(
    folder: Path,
    *,
    split: str = "test",
    dataset: Path | None = None,
    limit: int | None = None,
    decoding: Decoding | None = None,
    batch_size: int = 64,
) -> Evaluation:
    """Score the real answers of a split, generate answers to its questions, and compare the two.

    Args:
        folder: a model folder.
        split: `test`, `validation` or `train`.
        dataset: a dataset folder; None for the one that the model's recipe names.
        limit: measure on so many questions, drawn with a fixed seed; None for all.
        decoding: None for the model's own way to answer.
        batch_size: questions at a time.

    Raises:
        UsageError: folder, dataset or split are not usable.
    """
    engine = load_engine(folder)
    recipe = model_recipe(folder)
    source = dataset or Path(recipe.data.dataset)
    rows = load_split(source, split)
    if limit is not None and limit < len(rows):
        rows = rows.select(sorted(random.Random(0).sample(range(len(rows)), limit)))
    questions = [
        question_text(title, question, recipe.data.with_title)
        for title, question in zip(rows["title"], rows["question"], strict=True)
    ]
    references: list[str] = list(rows["answer"])

    likelihood = likelihood_metrics(engine.score(questions, references, recipe.data.max_answer_length, batch_size))
    answers = [("", False)] * len(questions)
    with tqdm(total=len(questions), desc="answering", unit=" questions", disable=None) as progress:
        for index, generated in engine.generate(questions, decoding, batch_size):
            answers[index] = (generated.text, generated.ended)
            progress.update()
    texts = [text for text, _ in answers]

    facts_file = source / FACTS_FILE
    facts = json.loads(facts_file.read_text(encoding="utf-8")) if facts_file.is_file() else []
    used = engine.generation_config(decoding)
    metrics = {
        "dataset": source.name,
        "split": split,
        "questions": len(questions),
        "leakage": split_leakage(source, split),
        **likelihood,
        **answer_metrics(texts, references, facts),
        "ended": sum(ended for _, ended in answers) / len(answers),
        "decoding": {"num_beams": used.num_beams or 1, "do_sample": bool(used.do_sample)},
    }
    predictions = [
        {"id": id_, "question": question, "answer": answer, "prediction": text, "ended": ended}
        for id_, question, answer, (text, ended) in zip(rows["id"], questions, references, answers, strict=True)
    ]
    return Evaluation(metrics, predictions)


def model_recipe(folder: Path) -> Recipe:
    """Read the recipe that a model was trained by."""
    if not (folder / RECIPE_FILE).is_file():
        raise UsageError(f"{folder} is no model folder of wenzhen train: it lacks {RECIPE_FILE}")
    return load_recipe(str(folder / RECIPE_FILE))
