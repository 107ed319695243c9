"""A unigram language model of pieces (Kudo, 2018), trained so that the same texts give the same bytes.

The tokenizers library's own trainer adds floating-point numbers up in the order of a hash table, and finds other
scores in every process. Here whole counts take the place of expected ones: the texts are cut in the most probable way,
and a piece's probability is its share of the cuts (hard EM). Byte-pair encoding gives the pieces to choose from.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models
from tqdm import tqdm

from wenzhen.tokenization.folder import UNK
from wenzhen.tokenization.pieces import learn_pieces, split_words
from wenzhen.tokenization.texts import BATCH, batches, count_characters, encode_texts

# Training starts from the characters and so many longer pieces for each piece wanted, and keeps this share of all from
# round to round.
CANDIDATES = 2
KEPT = 0.75
# What the library's model subtracts from the lowest score for a character that no piece covers.
UNKNOWN_PENALTY = 10.0


def learn_unigram(texts: Iterable[str], size: int) -> list[tuple[str, float]]:
    """Choose pieces and find their log probabilities.

    Args:
        texts: to learn from; iterated several times.
        size: how many pieces to keep at most. A character is a piece like any other: a rare one can be dropped.

    Returns:
        Pieces with their scores, most probable first.
    """
    pieces = learn_pieces(texts, len(count_characters(texts)) + CANDIDATES * size, min_frequency=2)
    # All alike: the first cut is the one into the fewest pieces.
    scores = [-1.0] * len(pieces)
    while True:
        counts = count_pieces(texts, pieces, scores)
        scores = log_probabilities(counts)
        if len(pieces) <= size:
            return sorted(zip(pieces, scores, strict=True), key=lambda piece: (-piece[1], piece[0]))
        losses = likelihood_losses(pieces, counts.tolist(), scores)
        order = sorted(range(len(pieces)), key=lambda index: (-losses[index], index))
        keep = sorted(order[: max(size, int(KEPT * len(pieces)))])
        pieces, scores = [pieces[index] for index in keep], [scores[index] for index in keep]


def count_pieces(texts: Iterable[str], pieces: list[str], scores: list[float]) -> NDArray[np.int64]:
    """Cut the texts in the most probable way and count how often each piece comes."""
    backend = Tokenizer(models.Unigram([(UNK, 0.0), *zip(pieces, scores, strict=True)], 0))
    backend.pre_tokenizer = split_words()
    counts = np.zeros(len(pieces) + 1, dtype=np.int64)
    with tqdm(desc=f"cutting into {len(pieces):,} pieces", unit=" texts", disable=None) as progress:
        for batch in batches(texts, BATCH):
            ids, _ = encode_texts(backend, batch)
            counts += np.bincount(ids, minlength=len(counts))
            progress.update(len(batch))
    return counts[1:]


def log_probabilities(counts: NDArray[np.int64]) -> list[float]:
    """Return each piece's log probability; one that never comes counts as half a time."""
    total = math.log(counts.sum())
    # Rounded, so that processors whose logarithms differ in the last bit write the same file.
    return [round(math.log(max(count, 0.5)) - total, 6) for count in counts.tolist()]


def likelihood_losses(pieces: list[str], counts: list[int], scores: list[float]) -> list[float]:
    """Return how far the texts' log likelihood falls when a piece is dropped and its places are cut otherwise."""
    known = dict(zip(pieces, scores, strict=True))
    unknown = min(scores) - UNKNOWN_PENALTY
    return [
        count * (score - best_score_without(piece, known, unknown))
        for piece, count, score in zip(pieces, counts, scores, strict=True)
    ]


def best_score_without(piece: str, scores: dict[str, float], unknown: float) -> float:
    """Return the score of the best way to cut a piece into other pieces.

    Args:
        piece: a text.
        scores: of all pieces.
        unknown: the score of a character that is cut off and covered by no piece.
    """
    best = [0.0]
    for end in range(1, len(piece) + 1):
        others = (start for start in range(end) if end - start < len(piece) and piece[start:end] in scores)
        ways = [best[start] + scores[piece[start:end]] for start in others]
        best.append(max([best[end - 1] + unknown, *ways]))
    return best[-1]
