"""Pairs of answers that counters may stumble over, and any number of random ones."""

import random

ODD_PAIRS = [
    ("", ""),
    ("", "少吃盐"),
    ("少吃盐", ""),
    (" \n\t", "少吃盐"),
    ("好", "好"),
    ("好", "不"),
    ("您好", "您好"),
    ("您好您好您好", "您好"),
    ("多喝水。早睡。", "早睡。多喝水。"),
    ("多喝水。\n\n 早睡？", "多喝水。早睡？"),
    ("每日3.5mg，共1,000ml。", "每日 3.5 mg,共1000 ml."),
    (".5好.,好2-3", "5.好..5，-1"),
    ("take aspirin 100mg", "take Aspirin 100mg daily"),
    ("等等......再说.......。", "等等......再说......。"),
    ("他说：“多喝水！”对吗？”是", "他说“多喝水！”对吗？是"),
    ("吃药💊💊祝好👨‍👩‍👧", "💊祝您好👨‍👩‍👧"),
    ("\u3000\u3000您好\u2003 吃饭", "您好 吃饭\r\n"),
    ("…—·①℃𠮷", "①℃𠮷…—"),
]
_ALPHABET = "您好高血压少吃盐多喝水每天的了，。！？；：“”…… 123.5,-%abC\n\t\u3000.💊"


def random_pairs(number: int, longest: int = 30, seed: int = 0) -> list[tuple[str, str]]:
    """Return pairs of random texts that share much."""
    draw = random.Random(seed)
    return [
        ("".join(draw.choices(_ALPHABET, k=draw.randint(0, longest))),
         "".join(draw.choices(_ALPHABET, k=draw.randint(0, longest))))
        for _ in range(number)
    ]  # fmt: skip


PAIRS = ODD_PAIRS + random_pairs(300)
PREDICTIONS = [prediction for prediction, _ in PAIRS]
REFERENCES = [reference for _, reference in PAIRS]
