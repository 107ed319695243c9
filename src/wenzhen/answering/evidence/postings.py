"""BM25 over the words of many questions, memory-mapped.

BM25 is that of Lucene (Kamphuis et al., "Which BM25 Do You Mean?", 2020), a word counted as often as the question has
it; bm25s computes and stores what each word adds to the score of each question.

The words are jieba's, short ones inside long ones too, and B is higher than the usual 0.75. Both were chosen by
measurement, against single characters and pairs of them: on how often the answer of the nearest question states the
same facts, and on how well similarity tells questions that a corpus covers from others.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from bm25s import BM25
from numpy.typing import NDArray
from tqdm import tqdm

from wenzhen.words import jieba_tokenizer, search_words

K1 = 1.5
B = 0.9
# Of a word's postings so many are added up for one question, rare words first; what common ones add is looked up for
# the candidates alone. Adding up the two to four million that some questions have takes longer than a reader notices,
# and moves no more than the last places.
MOST_POSTINGS = 1_000_000
CANDIDATES = 200
# Scores are searched for the highest in blocks of so many.
BLOCK = 256


class Postings:
    """The words of questions, to find the nearest ones by.

    Args:
        folder: what [`write_postings`] left.
        average_length: what it returned.
    """

    def __init__(self, folder: Path, average_length: float) -> None:
        stored = BM25.load(folder, mmap=True, show_progress=False)
        self.vocabulary: dict[str, int] = stored.vocab_dict
        self.scores: NDArray[np.float32] = stored.scores["data"]
        self.rows: NDArray[np.int32] = stored.scores["indices"]
        self.starts: NDArray[np.int64] = np.array(stored.scores["indptr"])
        self.count = int(stored.scores["num_docs"])
        self.average_length = average_length
        frequencies = np.diff(self.starts)
        self.idf = np.log(1 + (self.count - frequencies + 0.5) / (frequencies + 0.5))
        # A word that no question has.
        self.highest_idf = float(np.log(1 + (self.count + 0.5) / 0.5))
        # Half a second that the first question need not wait for.
        jieba_tokenizer()

    def nearest(self, question: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the nearest questions, at most [`CANDIDATES`], all with a word of the question.

        Returns:
            Their numbers `[found]`, the nearest first and of equally near ones the first, and how similar they are, 0
            to 1: the score that a question gets, divided by the score of the asked question if it were one of them.
        """
        words = Counter(search_words(question))
        known = [(self.vocabulary[word], times) for word, times in words.items() if word in self.vocabulary]
        if not known:
            return np.empty(0, np.int64), np.empty(0)
        rows, scores = self.scores_of(sorted(known, key=lambda item: -self.idf[item[0]]))
        order = np.lexsort((rows, -scores))
        # As many digits as the stored scores have.
        return rows[order], np.minimum(np.round(scores[order] / self.own_score(words), 6), 1.0)

    def scores_of(self, words: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Score the questions most likely to be the nearest.

        Args:
            words: numbers of words and how often the question has them, rare words first.

        Returns:
            Numbers of questions, ascending, and their scores, `[candidates]` each.
        """
        sums = np.zeros(self.count, np.float32)
        added = 0
        later = []
        for word, times in words:
            postings = slice(self.starts[word], self.starts[word + 1])
            added += postings.stop - postings.start
            if added > MOST_POSTINGS and word != words[0][0]:
                later.append((postings, times))
            else:
                # Many times as fast as `sums[rows] += scores`.
                np.add.at(sums, self.rows[postings], self.scores[postings] * np.float32(times))
        candidates = np.sort(highest(sums, CANDIDATES))
        scores = sums[candidates].astype(np.float64)
        for postings, times in later:
            rows = self.rows[postings]
            places = np.minimum(np.searchsorted(rows, candidates), len(rows) - 1)
            scores += np.where(rows[places] == candidates, self.scores[postings][places] * times, 0.0)
        return candidates, scores

    def own_score(self, words: Counter[str]) -> float:
        """Return the score of a question by itself; words that no question has count as the rarest."""
        weight = K1 * (1 - B + B * words.total() / self.average_length)
        total = 0.0
        for word, times in words.items():
            number = self.vocabulary.get(word)
            idf = self.highest_idf if number is None else float(self.idf[number])
            total += times * idf * times / (weight + times)
        return total


def highest(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the numbers of the highest scores above 0, the highest first and of equal ones the first.

    Args:
        scores: `[scores]`, at least one.
        count: how many at most.
    """
    # The highest of `count` blocks are `count` scores: none below the lowest of them is among the highest.
    tops = np.maximum.reduceat(scores, np.arange(0, len(scores), BLOCK))
    least = np.partition(tops, -count)[-count] if len(tops) > count else 0.0
    found = np.flatnonzero(scores >= least if least > 0 else scores > 0)
    return found[np.argsort(-scores[found], kind="stable")[:count]]


def write_postings(questions: Iterable[str], count: int, folder: Path) -> float:
    """Write the words of questions for [`Postings`].

    Args:
        questions: texts.
        count: how many there are.
        folder: to make.

    Returns:
        How many words a question has on average.
    """
    vocabulary: dict[str, int] = {}
    asked = tqdm(questions, total=count, desc="words", unit=" questions", disable=None, leave=False)
    words = [[vocabulary.setdefault(word, len(vocabulary)) for word in search_words(text)] for text in asked]
    bm25 = BM25(k1=K1, b=B)
    bm25.index((words, vocabulary), show_progress=sys.stderr.isatty())
    bm25.save(folder, show_progress=False)
    return sum(map(len, words)) / len(words)
