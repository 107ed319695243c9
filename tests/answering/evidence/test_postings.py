"""BM25 against a second implementation, word by word, and the laws of similarity."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenzhen.answering.evidence import postings as module
from wenzhen.answering.evidence.postings import BLOCK, K1, B, Postings, highest, write_postings
from wenzhen.corpus.loading import load_split
from wenzhen.words import search_words

ASKED = ["高血压平时要注意什么？", "孩子咳嗽咳嗽咳嗽，发烧三天了", "龘鱻怎么办", "头痛", "怎么办怎么办"]


def make_postings(questions: Sequence[str], folder: Path) -> Postings:
    return Postings(folder, write_postings(questions, len(questions), folder))


@pytest.fixture(scope="module")
def questions(dataset: Path) -> list[str]:
    return list(load_split(dataset, "train")["question"])


@pytest.fixture(scope="module")
def postings(questions: list[str], tmp_path_factory: pytest.TempPathFactory) -> Postings:
    return make_postings(questions, tmp_path_factory.mktemp("postings") / "bm25")


class Definition:
    """BM25 as it is defined: a sum over the words of what is asked."""

    def __init__(self, questions: Sequence[str]) -> None:
        self.documents = [Counter(search_words(text)) for text in questions]
        self.average = sum(document.total() for document in self.documents) / len(self.documents)

    def idf(self, word: str) -> float:
        frequency = sum(word in document for document in self.documents)
        return math.log(1 + (len(self.documents) - frequency + 0.5) / (frequency + 0.5))

    def scores(self, asked: str) -> list[float]:
        """The score of every question, and at last that of what is asked by itself."""
        words = [(word, self.idf(word)) for word in search_words(asked)]
        documents = [*self.documents, Counter(search_words(asked))]
        lengths = [K1 * (1 - B + B * document.total() / self.average) for document in documents]
        return [
            sum(idf * document[word] / (document[word] + length) for word, idf in words)
            for document, length in zip(documents, lengths, strict=True)
        ]


@pytest.mark.parametrize("asked", ASKED)
def test_scores_are_bm25_s(postings: Postings, questions: list[str], asked: str) -> None:
    rows, similarities = postings.nearest(asked)
    *scores, own = Definition(questions).scores(asked)
    expected = np.minimum(np.array(scores) / own, 1)
    assert similarities == pytest.approx(expected[rows], abs=2e-6)
    assert len(rows) == min((expected > 0).sum(), module.CANDIDATES)
    assert expected[rows[0]] == pytest.approx(expected.max(), abs=2e-6)
    assert list(similarities) == sorted(similarities, reverse=True)


@pytest.mark.parametrize("most", [0, 20, 200])
def test_looking_common_words_up_is_adding_them(
    postings: Postings, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    whole = [postings.nearest(asked) for asked in ASKED]
    monkeypatch.setattr(module, "MOST_POSTINGS", most)
    for asked, (rows, similarities) in zip(ASKED, whole, strict=True):
        found, values = postings.nearest(asked)
        # Questions with none of the rarest words are not looked at.
        known = dict(zip(rows.tolist(), similarities, strict=True))
        assert values == pytest.approx([known[row] for row in found.tolist()], abs=1e-6)
        assert found[0] == rows[0]
        assert len(found) <= len(rows)


def test_question_that_stands_there_is_wholly_similar(postings: Postings, questions: list[str]) -> None:
    for row in (0, 7, len(questions) - 1):
        rows, similarities = postings.nearest(f"  {questions[row]}！？")
        assert rows[0] == row
        assert similarities[0] == 1.0


def test_words_that_nobody_has_make_a_question_less_similar(postings: Postings, questions: list[str]) -> None:
    values = [postings.nearest(questions[3] + "龘" * times)[1][0] for times in range(3)]
    assert 1.0 == values[0] > values[1] > values[2]


@pytest.mark.parametrize("asked", ["", "？！……", "龘鱻", "\u3000"])
def test_nothing_in_common_finds_nothing(postings: Postings, asked: str) -> None:
    rows, similarities = postings.nearest(asked)
    assert len(rows) == len(similarities) == 0


def test_of_equally_near_ones_the_first_comes_first(tmp_path: Path) -> None:
    postings = make_postings(["咳嗽", "头痛", "头痛", "腹泻怎么办", "头痛"], tmp_path / "bm25")
    rows, similarities = postings.nearest("头痛")
    assert rows.tolist() == [1, 2, 4]
    assert similarities.tolist() == [1, 1, 1]


def test_one_question_and_a_wordless_one(tmp_path: Path) -> None:
    postings = make_postings(["？？", "发烧"], tmp_path / "bm25")
    assert postings.nearest("发烧了")[0].tolist() == [1]


@given(st.integers(1, 3 * BLOCK), st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from([2, 50, 10_000]))
def test_highest_are_those_of_a_sorted_list(size: int, count: int, seed: int, values: int) -> None:
    scores = np.random.default_rng(seed).integers(0, values, size).astype(np.float32)
    best = sorted(range(size), key=lambda row: (-scores[row], row))[:count]
    assert highest(scores, count).tolist() == [row for row in best if scores[row] > 0]
