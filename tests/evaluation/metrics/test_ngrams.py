"""Counts of n-grams against dictionaries."""

from collections import Counter

import pytest
from answer_pairs import PREDICTIONS, REFERENCES

from wenzhen.evaluation.metrics import ngrams
from wenzhen.evaluation.metrics.ngrams import count_ngrams


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_counts_are_those_of_dictionaries(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(ngrams, "BLOCK", block)
    counts = count_ngrams(PREDICTIONS, REFERENCES, 3)
    for row, texts in enumerate(zip(PREDICTIONS, REFERENCES, strict=True)):
        for size in (1, 2, 3):
            predicted, real = (
                Counter(text[start : start + size] for start in range(len(text) - size + 1)) for text in texts
            )
            both = predicted & real
            expected = (predicted.total(), real.total(), both.total(), len(predicted), len(real), len(both))
            assert tuple(count[row, size - 1] for count in counts) == expected


def test_tokens_may_be_words() -> None:
    counts = count_ngrams([["吃盐", "吃"]], [["吃", "盐", "吃盐"]], 2)
    assert counts.matches.tolist() == [[2, 0]]


def test_no_answers_have_no_counts() -> None:
    assert count_ngrams([], [], 4).matches.shape == (0, 4)
