"""Counting the n-grams of many answers at once, by sorting numbers instead of filling dictionaries."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

# The longest n-grams of characters that a metric asks for: chrF's.
CHARACTER_ORDER = 6
# Answers counted at a time: memory stays bounded, and short arrays are sorted faster.
BLOCK = 1024


class NgramCounts(NamedTuple):
    """How many n-grams answers and their references have and share, each an array [answers, order].

    `matches` counts an n-gram as often as it comes in the one of the two that has it less often (clipped counts);
    the kinds count each different n-gram once.
    """

    predicted: Counts
    real: Counts
    matches: Counts
    predicted_kinds: Counts
    real_kinds: Counts
    shared_kinds: Counts


def count_ngrams(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], order: int) -> NgramCounts:
    """Count the n-grams of 1 to `order` tokens.

    Args:
        predictions: the tokens of each answer; a string stands for its characters.
        references: the tokens of each answer's reference.
        order: tokens in the longest n-grams.
    """
    starts = range(0, max(len(predictions), 1), BLOCK)
    blocks = [_count_block(predictions[at : at + BLOCK], references[at : at + BLOCK], order) for at in starts]
    return NgramCounts(*np.concatenate(blocks, axis=1))


def count_character_ngrams(predictions: Iterable[str], references: Iterable[str]) -> NgramCounts:
    """Count the n-grams of 1 to 6 characters; counts are kept for a while, as most metrics ask for the same."""
    return _count_characters(tuple(predictions), tuple(references))


@lru_cache(maxsize=2)
def _count_characters(predictions: tuple[str, ...], references: tuple[str, ...]) -> NgramCounts:
    return count_ngrams(predictions, references, CHARACTER_ORDER)


def _count_block(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], order: int) -> Counts:
    """Return the six counts as one array [6, answers, order]."""
    answers = len(predictions)
    texts = [*predictions, *references]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    vocabulary: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    tokens = np.fromiter((vocabulary[token] for token in itertools.chain.from_iterable(texts)), np.int64)
    text = np.repeat(np.arange(len(texts)), lengths)
    is_real = text >= answers
    answer = text - answers * is_real
    left_in_text = np.cumsum(lengths)[text] - np.arange(len(tokens))

    counts = np.zeros((6, answers, order), np.int64)
    start, gram = np.arange(len(tokens)), answer
    for size in range(1, order + 1):
        fits = left_in_text[start] >= size
        start, gram = start[fits], gram[fits]
        # The number of an n-gram's first n-1 tokens, which are no other answer's, and its last token tell it apart.
        kinds, gram = np.unique(gram * len(vocabulary) + tokens[start + size - 1], return_inverse=True)
        times = np.bincount(gram + len(kinds) * is_real[start], minlength=2 * len(kinds)).reshape(2, -1)
        owner = np.empty(len(kinds), np.int64)
        owner[gram] = answer[start]
        found = times > 0
        of_kinds = (*times, times.min(axis=0), *found, found.all(axis=0))
        counts[:, :, size - 1] = [np.bincount(owner, of_kind, minlength=answers) for of_kind in of_kinds]
    return counts
