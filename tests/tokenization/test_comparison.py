"""Tokenizers measured on hand-made texts."""

import pytest

from wenzhen.tokenization import KINDS, train_tokenizer
from wenzhen.tokenization.comparison import compare_kinds, comparison_table, measure_tokenizer


def test_measurements_of_a_tokenizer_that_knows_three_of_four_characters() -> None:
    measured = measure_tokenizer(train_tokenizer(["头痛天"]), ["头痛", "头龘", "天天天天"])
    speed = measured.pop("characters_per_second")
    assert speed > 0
    # Eight characters in three texts; 龘 is lost, and with it one text.
    expected = {"vocabulary": 7, "tokens_per_character": 1, "unknown_rate": 1 / 8, "round_trip": 2 / 3}
    assert measured == pytest.approx(expected)


def test_pieces_make_fewer_tokens_than_characters() -> None:
    measured = measure_tokenizer(train_tokenizer(["头痛"] * 3, "wordpiece"), ["头痛头痛，", "头痛"])
    # 头痛 is one token, the comma unknown: four tokens for seven characters.
    assert measured["tokens_per_character"] == pytest.approx(4 / 7)
    assert measured["unknown_rate"] == pytest.approx(1 / 7)


def test_every_kind_is_trained_and_gets_a_row() -> None:
    texts = ["头痛三天，血压高", "血压高，头痛"] * 5
    rows = list(compare_kinds(texts, ["头痛🤒"], vocab_size=270))
    assert [row["kind"] for row in rows] == list(KINDS)
    assert [row["round_trip"] for row in rows] == [0, 1, 0, 1]
    assert [round(row["unknown_rate"], 4) for row in rows] == [0.3333, 0, 0.3333, 0]
    # The characters; six bytes of two characters and four of the sign; 头痛 and one unknown; 头痛 and four bytes.
    bpe_tokens = rows[1]["tokens_per_character"] * 3
    assert [round(row["tokens_per_character"] * 3) for row in rows] == [3, round(bpe_tokens), 2, 5]
    assert 5 <= bpe_tokens <= 10
    lines = comparison_table(rows).splitlines()
    assert [line.split()[0] for line in lines] == ["kind", *KINDS]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split()[-1] == "0.00%" and lines[2].split()[-1] == "100.00%"
