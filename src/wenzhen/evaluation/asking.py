"""Asking a model: its answers to questions, how probable it finds the real ones, and what that took."""

import resource
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from wenzhen.answering.decoding import Decoding
from wenzhen.answering.engines import Engine
from wenzhen.evaluation.predictions import Draft, Prediction, predictions_of
from wenzhen.evaluation.questions import Consultations
from wenzhen.models.digest import WEIGHTS, model_digest
from wenzhen.recipe import Recipe

# Of sampling.
SEED = 0
# What `metrics.json` says of a [`Cost`].
COSTS = (
    "answers_per_second",
    "characters_per_second",
    "timed_answers",
    "peak_memory_gb",
    "parameters",
    "size_mb",
    "engine",
)


@dataclass(frozen=True)
class Cost:
    """What answering took.

    Attributes:
        answers: that were timed; fewer than there are where a run was taken up again.
        seconds: for writing them, the loading of the model left out.
        characters: in them.
        peak_memory_gb: the most memory that the process has held.
        parameters: of the model; None for an export, which does not tell.
        size_mb: of the weights on the disk, in 10⁶ bytes.
        engine: what computed.
    """

    answers: int
    seconds: float
    characters: int
    peak_memory_gb: float
    parameters: int | None
    size_mb: float
    engine: str

    def as_metrics(self) -> dict[str, Any]:
        """Return what `metrics.json` says of it; speeds are None where nothing was timed."""
        return {
            "answers_per_second": self.answers / self.seconds if self.answers else None,
            "characters_per_second": self.characters / self.seconds if self.answers else None,
            "timed_answers": self.answers,
            "peak_memory_gb": round(self.peak_memory_gb, 3),
            "parameters": self.parameters,
            "size_mb": round(self.size_mb, 1),
            "engine": self.engine,
        }


def ask(
    engine: Engine,
    folder: Path,
    recipe: Recipe,
    asked: Consultations,
    decoding: Decoding | None,
    batch_size: int,
    draft_file: Path,
) -> tuple[list[Prediction], Cost]:
    """Have a model answer questions, and score the real answers where there are any.

    The answers go to a draft as they come: asked the same again after it was stopped, the model goes on behind them.

    Args:
        engine: the model, loaded.
        folder: where it was loaded from.
        recipe: the model's.
        asked: what to ask.
        decoding: None for the model's own way.
        batch_size: questions at a time.
        draft_file: where the draft goes; it is removed by whoever has put the predictions away.
    """
    weights = next(folder / name for name in WEIGHTS if (folder / name).is_file())
    draft = Draft(draft_file, draft_key(engine, folder, asked, decoding))
    answers = {index: answer for index, answer in draft.read().items() if 0 <= index < len(asked)}
    engine.seed(SEED)
    if answers:
        tqdm.write(f"going on behind {len(answers):,} answers", file=sys.stderr)
    rest = [index for index in range(len(asked)) if index not in answers]
    characters = 0
    with (
        draft.opened(answers) as writer,
        tqdm(total=len(asked), initial=len(answers), desc="answering", unit=" questions", disable=None) as progress,
    ):
        start = time.perf_counter()
        for index, generated in engine.generate([asked.questions[i] for i in rest], decoding, batch_size):
            answers[rest[index]] = (generated.text, generated.ended)
            writer.add(rest[index], generated.text, generated.ended)
            characters += len(generated.text)
            progress.update()
        seconds = time.perf_counter() - start
    likelihoods: list[tuple[Any, ...]] = [(None, None, None)] * len(asked)
    if asked.references is not None:
        scored = engine.score(asked.questions, asked.references, recipe.data.max_answer_length, batch_size)
        likelihoods = [(nll, int(tokens), padded) for nll, tokens, padded in np.asarray(scored).tolist()]
    predictions = [
        replace(row, ended=answers[index][1], nll=nll, tokens=tokens, padded_nll=padded_nll)
        for index, (row, (nll, tokens, padded_nll)) in enumerate(
            zip(predictions_of(asked, [answers[i][0] for i in range(len(asked))]), likelihoods, strict=True)
        )
    ]
    model = getattr(engine, "model", None)
    cost = Cost(
        answers=len(rest),
        seconds=seconds,
        characters=characters,
        peak_memory_gb=peak_memory() / 2**30,
        parameters=model.num_parameters() if model is not None else None,
        size_mb=weights.stat().st_size / 1e6,
        engine=engine.name,
    )
    return predictions, cost


def draft_key(engine: Engine, folder: Path, asked: Consultations, decoding: Decoding | None) -> dict[str, Any]:
    """Return what determines a model's answers, so that those of another model, way or question are never taken."""
    settings = engine.generation_config(decoding).to_diff_dict()
    settings.pop("transformers_version", None)
    return {"model": model_digest(folder), "questions": asked.fingerprint, "decoding": settings}


def peak_memory() -> int:
    """Return the most bytes that this process has held at a time."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024)
