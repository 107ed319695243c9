"""How questions are read: one spelling for many."""

import pytest

from wenzhen.answering.safety.folding import fold


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("胸 痛", "胸痛"),
        ("胸、痛", "胸痛"),
        ("自，杀", "自杀"),
        ("自\u200b杀😭", "自杀"),
        ("喘不上氣，頭暈", "喘不上气，头晕"),
        ("ＣＰＲ　１２０", "cpr 120"),
        ("I don’t  want", "i dont want"),
        ("体温38.5℃.", "体温38.5度"),
        ("没有 发烧 胸痛", "没有发烧胸痛"),
        ("好了！！走？\n再见；", "好了。走。再见，"),
        ("xiong口teng，chuan 不过气", "胸口疼，喘不过气"),
        ("tuxue了", "吐血了"),
        ("si le", "si le"),
        ("é", "é"),
        ("", ""),
    ],
)
def test_words_are_found_in_every_spelling(text: str, read: str) -> None:
    assert fold(text).text == read


@pytest.mark.parametrize("text", ["胸 痛、气 短 abc def，没有 发烧", "a b", " 、，。 ", "没有发热、咳嗽 胸痛"])
def test_positions_lead_back_to_the_separators(text: str) -> None:
    folded = fold(text)
    assert len(folded.positions) == len(folded.text) + 1
    assert "".join(folded.full[position] for position in folded.positions[:-1]) == folded.text


def test_lists_and_spaces_are_known_where_negations_are_read() -> None:
    assert fold("没有发热、咳嗽 胸痛").full == "没有发热、咳嗽 胸痛"
    assert fold("没有发热、咳嗽 胸痛").around(6, 8, 4) == ("、咳嗽 ", "胸痛", "")
