"""The unigram language model against enumeration."""

import itertools
import math
import random

import numpy as np
import pytest

from wenzhen.tokenization import train_tokenizer
from wenzhen.tokenization.unigram import best_score_without, count_pieces, learn_unigram, log_probabilities


def segmentations(word: str) -> list[list[str]]:
    """Return all ways to cut a word."""
    cuts = itertools.product([False, True], repeat=len(word) - 1)
    ways = []
    for flags in cuts:
        places = [0, *(place for place, flag in enumerate(flags, 1) if flag), len(word)]
        ways.append([word[start:end] for start, end in itertools.pairwise(places)])
    return ways


def random_scores(generator: random.Random) -> dict[str, float]:
    """Return log probabilities of the letters a to d and of some longer pieces."""
    pieces = {"".join(generator.choices("abcd", k=generator.randint(2, 4))) for _ in range(12)}
    return {piece: generator.uniform(-9, -1) for piece in sorted({*"abcd", *pieces})}


def test_best_way_without_a_piece_is_the_best_of_all_ways() -> None:
    generator = random.Random(0)
    for _ in range(50):
        scores = random_scores(generator)
        for piece in scores:
            others = {other: score for other, score in scores.items() if other != piece}
            ways = [sum(others.get(part, -30.0 * len(part)) for part in way) for way in segmentations(piece)]
            assert best_score_without(piece, scores, -30.0) == pytest.approx(max(ways))


def test_counts_are_those_of_the_most_probable_ways() -> None:
    generator = random.Random(1)
    for _ in range(20):
        scores = random_scores(generator)
        words = ["".join(generator.choices("abcd", k=generator.randint(1, 7))) for _ in range(10)]
        expected = dict.fromkeys(scores, 0)
        for word in words:
            ways = [way for way in segmentations(word) if all(part in scores for part in way)]
            for part in max(ways, key=lambda way: sum(scores[part] for part in way)):
                expected[part] += 1
        # A comma parts words and is itself unknown.
        counts = count_pieces([",".join(words)], list(scores), list(scores.values()))
        assert counts.tolist() == list(expected.values())


def test_scores_are_log_shares_of_the_cuts() -> None:
    texts = ["头痛\n头痛", "头痛\n血压", "血压\n发烧"] * 4
    pieces = dict(learn_unigram(texts, 20))
    # 头痛 and the line break come 12 times, 血压 8, 发烧 4; other characters never by themselves: half a time.
    counts = {"头痛": 12, "\n": 12, "血压": 8, "发烧": 4} | dict.fromkeys("头痛血压发烧", 0.5)
    assert pieces == pytest.approx({piece: math.log(count / 36) for piece, count in counts.items()}, abs=1e-6)
    assert list(pieces.values()) == sorted(pieces.values(), reverse=True)


def test_pieces_that_explain_most_are_kept() -> None:
    texts = ["头痛，血压，发烧，咳嗽", "头痛，血压，头痛", "头痛"] * 4
    # 头痛 comes 16 times, 血压 8, 发烧 and 咳嗽 4 times; the comma 20 times.
    assert [piece for piece, _ in learn_unigram(texts, 3)] == ["，", "头痛", "血压"]


def test_a_dropped_character_is_written_in_bytes() -> None:
    tokenizer = train_tokenizer(["头痛，血压，头痛"] * 5 + ["龘"], "unigram", vocab_size=263)
    assert tokenizer.convert_ids_to_tokens(range(260, 263)) == ["头痛", "，", "血压"]
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("龘头痛")["input_ids"])
    assert tokens == ["<0xE9>", "<0xBE>", "<0x98>", "头痛", "</s>"]


def test_log_probabilities_of_counts() -> None:
    expected = [math.log(share) for share in (0.75, 0.25, 0.0625)]
    assert log_probabilities(np.array([6, 2, 0])) == pytest.approx(expected, abs=1e-6)
