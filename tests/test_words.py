"""What a text is looked up by."""

from wenzhen.words import search_words


def test_long_words_come_with_the_short_ones_in_them() -> None:
    assert sorted(search_words("高血压，要少吃盐！")) == ["吃盐", "少", "血压", "要", "高血压"]


def test_case_punctuation_and_blanks_do_not_count() -> None:
    assert search_words(" CT？ct_3\n") == ["ct", "ct", "3"]
    assert search_words("？！……（）\u3000") == []


def test_unknown_characters_are_words_of_their_own() -> None:
    assert search_words("龘鱻") == ["龘", "鱻"]
