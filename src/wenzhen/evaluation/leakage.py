"""Which questions stand in the training data too, so that an answer to them may have been learned by heart."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wenzhen.corpus.collecting import comparison_key
from wenzhen.corpus.near_duplicates import near_duplicates
from wenzhen.corpus.schema import NO_QUESTION


def leaked(train_questions: Sequence[str], questions: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which questions have an equal or a near-duplicate among the training questions.

    It is found as for the split of a dataset: texts are compared by their letters and digits, near-duplicates are
    those of [`near_duplicates`], and what is like a text that is like a training question counts too.

    Args:
        train_questions: the questions of the training split.
        questions: those to judge; an empty one is one that says 无.

    Returns:
        One truth value for each question, `[questions]`.
    """
    numbers: dict[str, int] = {}

    def number_texts(texts: Sequence[str]) -> list[int]:
        return [numbers.setdefault(comparison_key(text) or NO_QUESTION, len(numbers)) for text in texts]

    number_texts(train_questions)
    trained = len(numbers)
    asked = number_texts(questions)
    # A group is known by its first text, and the training questions come first.
    groups = near_duplicates(pa.array(numbers, pa.large_string()))
    leaks: NDArray[np.bool_] = groups[asked] < trained
    return leaks
