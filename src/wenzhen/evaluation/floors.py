"""Floors: answers that need no model. A model that does not beat them has not earned its place before a user.

All are deterministic. The two that look for the nearest training question read it in lower case, character by
character, so that Chinese needs no word segmentation; of equally near ones the first in the training data answers.
"""

import random
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from wenzhen.errors import UsageError

# Name -> what answers.
FLOORS = {
    "constant": "one constant answer",
    "random": "a random training answer",
    "nearest_bm25": "the nearest neighbour (BM25)",
    "nearest_tfidf": "the nearest neighbour (TF-IDF)",
}
# What may be said to anyone, in the tone of the corpus' answers and of about their usual length.
CONSTANT_ANSWER = (
    "您好，您说的这种情况可能由多种原因引起，只凭文字描述还不能确定。建议您及时到正规医院就诊，做相关的检查，"
    "明确诊断以后，再在医生的指导下进行治疗，不要自行用药。平时要注意休息，避免劳累和熬夜，饮食以清淡、"
    "易消化的食物为主，不要吃辛辣刺激的食物，戒烟戒酒，适当锻炼身体，保持良好的心情。祝您早日康复！"
)

# Compared at a time: so many training questions that their similarities to one question fit a processor's cache.
_TRAIN_BLOCK = 10_000
_BLOCK = 100


def floor_answers(
    name: str, train_questions: Sequence[str], train_answers: Sequence[str], questions: Sequence[str], seed: int = 0
) -> list[str]:
    """Answer questions as a floor does.

    Args:
        name: one of [`FLOORS`].
        train_questions: the questions of the training split.
        train_answers: their answers, in the same order.
        questions: to answer.
        seed: of the draw of `random`.

    Returns:
        One answer for each question.

    Raises:
        UsageError: there is no such floor, or no training question that says anything.
    """
    if name not in FLOORS:
        raise UsageError(f"no floor `{name}`; there are: {', '.join(FLOORS)}")
    if name == "constant":
        return [CONSTANT_ANSWER] * len(questions)
    if not any(train_questions):
        raise UsageError(f"the floor `{name}` answers with training answers, but there is no training question")
    if not questions:
        return []
    if name == "random":
        rng = random.Random(seed)
        return [rng.choice(train_answers) for _ in questions]
    nearest = nearest_bm25 if name == "nearest_bm25" else nearest_tfidf
    return [train_answers[row] for row in nearest(train_questions, questions)]


def nearest_bm25(train_questions: Sequence[str], questions: Sequence[str]) -> NDArray[np.int64]:
    """Find the training question of the highest BM25 for each question, over single characters.

    BM25 is that of Lucene (Kamphuis et al., "Which BM25 Do You Mean?", 2020) with k1 = 1.5 and b = 0.75, a character
    counted as often as the question has it.

    Args:
        train_questions: to look through; at least one is not empty.
        questions: to look for, at least one. One that shares no character with any gets the first.

    Returns:
        The number of a training question for each question, `[questions]`.
    """
    from bm25s import BM25

    numbers: dict[str, int] = {}
    characters = [[numbers.setdefault(char, len(numbers)) for char in text.lower()] for text in train_questions]
    retriever = BM25()
    retriever.index((characters, numbers), show_progress=sys.stderr.isatty())
    del characters
    nearest = np.zeros(len(questions), dtype=np.int64)
    for row, text in enumerate(tqdm(questions, desc="BM25", unit=" questions", disable=None, leave=False)):
        # The library's own choice of the best is not the first of equal ones.
        nearest[row] = retriever.get_scores_from_ids(retriever.get_tokens_ids(text.lower())).argmax()
    return nearest


def nearest_tfidf(train_questions: Sequence[str], questions: Sequence[str]) -> NDArray[np.int64]:
    """Find the training question of the highest cosine for each question, between TF-IDF vectors of 1 to 3 characters.

    Args:
        train_questions: to look through; at least one is not empty.
        questions: to look for, at least one. One that shares no character with any gets the first.

    Returns:
        The number of a training question for each question, `[questions]`.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), dtype=np.float32)
    reading = tqdm(train_questions, desc="TF-IDF", unit=" training questions", disable=None, leave=False)
    trained = vectorizer.fit_transform(reading)
    asked = vectorizer.transform(questions)
    nearest = np.zeros(len(questions), dtype=np.int64)
    highest = np.zeros(len(questions), dtype=np.float32)
    starts = range(0, len(train_questions), _TRAIN_BLOCK)
    for start in tqdm(starts, desc="TF-IDF", unit=" blocks", disable=None, leave=False):
        block = trained[start : start + _TRAIN_BLOCK].T.tocsr()
        for first in range(0, len(questions), _BLOCK):
            rows = slice(first, first + _BLOCK)
            cosines = (asked[rows] @ block).toarray()
            best = cosines.max(axis=1)
            better = best > highest[rows]
            nearest[rows][better] = start + cosines.argmax(axis=1)[better]
            highest[rows][better] = best[better]
    return nearest
