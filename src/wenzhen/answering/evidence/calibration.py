"""From where on an answer has something to rest on: thresholds, measured on questions that the model has not seen.

A threshold is low enough that all but [`QUANTILE`] of the validation questions are above it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from wenzhen.answering.evidence.postings import Postings

if TYPE_CHECKING:
    from wenzhen.answering.engines.base import Engine

QUANTILE = 0.02
# To tell how the values spread.
SHOWN_QUANTILES = (QUANTILE, 0.1, 0.5, 0.9)
# Questions that are looked up, and that the model answers, at most.
LOOKED_UP = 1000
ANSWERED = 200


def similarities(postings: Postings, questions: Sequence[str]) -> list[float]:
    """Return how similar the nearest question is to each of several, 0 where none shares a word."""
    asked = tqdm(questions, desc="similarity", unit=" questions", disable=None, leave=False)
    return [float(found[0]) if len(found := postings.nearest(question)[1]) else 0.0 for question in asked]


def probabilities(engine: "Engine", questions: Sequence[str]) -> list[float]:
    """Return how probable the model finds the answers that it writes to questions, the geometric mean over the tokens
    of each; empty answers are left out."""
    # Where the model samples, the same answers again.
    engine.seed(0)
    written = tqdm(
        engine.generate(list(questions)),
        total=len(questions),
        desc="answering",
        unit=" questions",
        disable=None,
        leave=False,
    )
    answers = [(questions[number], answer.text) for number, answer in written if answer.text]
    if not answers:
        return []
    longest = int(engine.default_generation_config.max_new_tokens)
    asked, texts = (list(column) for column in zip(*answers, strict=True))
    return [math.exp(-loss / tokens) for loss, tokens, _ in engine.score(asked, texts, longest)]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return how many values there are, at least one, and their quantiles."""
    quantiles = np.quantile(values, SHOWN_QUANTILES).tolist()
    return {"count": len(values), "quantiles": dict(zip(map(str, SHOWN_QUANTILES), quantiles, strict=True))}
