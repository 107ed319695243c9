"""Many texts at once: a split's texts without holding them all, and their characters and tokens as arrays."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wenzhen.corpus.schema import TEXT_COLUMNS
from wenzhen.corpus.statistics import count_code_points
from wenzhen.errors import UsageError

# Of texts: so many that the work on a batch outweighs the batch.
BATCH = 10_000


class SplitTexts:
    """The titles, questions and answers of a split, read in batches each time they are iterated."""

    def __init__(self, split: Dataset) -> None:
        self.rows = split.select_columns(list(TEXT_COLUMNS))

    def __iter__(self) -> Iterator[str]:
        # The library cannot go through no rows.
        for columns in self.rows.iter(batch_size=1000) if len(self.rows) else ():
            yield from itertools.chain.from_iterable(columns.values())


def check_texts(texts: Iterable[str], purpose: str) -> None:
    """Refuse texts that are all empty, and none at all.

    Raises:
        UsageError: there is no character; `purpose` is what the texts are for.
    """
    if not any(texts):
        raise UsageError(f"there is no text to {purpose}; take a dataset whose texts are not all empty")


def batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the texts in lists of `size`; the last one may be shorter."""
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def encode_texts(backend: Tokenizer, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ids of all texts, one after the other, and the texts' lengths in tokens."""
    rows = [
        # Not all at once: the library's encodings take a hundred times the memory of their ids.
        encoding.ids
        for batch in batches(texts, 1000)
        for encoding in backend.encode_batch_fast(batch)
    ]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int32, count=lengths.sum()), lengths


def count_characters(texts: Iterable[str]) -> dict[str, int]:
    """Count how often each character occurs, in the order of code points."""
    counts = count_code_points(batches(texts, BATCH))
    return {chr(code_point): int(counts[code_point]) for code_point in np.flatnonzero(counts)}
