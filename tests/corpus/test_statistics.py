import random
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
from datasets import Dataset

from wenzhen.corpus.statistics import COVERAGES, coverage, measure_texts, summarize_lengths, summarize_texts


def split_of(rows):
    """Make a split of rows of title, question and answer, with a column that is no text of theirs."""
    columns = dict(zip(("title", "question", "answer"), zip(*rows, strict=True), strict=True))
    return Dataset.from_dict({"id": [str(number) for number in range(len(rows))], **columns})


def summary_of(**splits):
    return summarize_texts(measure_texts({name: split_of(rows) for name, rows in splits.items()}))


EXAMPLE = {
    "train": [("胃痛", "胃痛两天", "少吃"), ("", "头痛", "多睡\n早睡")],
    "validation": [("胃", "胃痛", "查胃镜😊")],
    "test": [("咳嗽", "", "多喝水，多睡"), ("", "痛", "龘水")],
}


def test_lengths_by_hand():
    lengths = summary_of(**EXAMPLE)["lengths"]
    # Titles 2 0 1 2 0, questions 4 2 2 0 1, answers 2 5 4 6 2: the third of five is the median, the last p95 and p99.
    assert lengths == {
        "title": {"mean": 1.0, "p50": 1, "p95": 2, "p99": 2, "max": 2},
        "question": {"mean": 1.8, "p50": 2, "p95": 4, "p99": 4, "max": 4},
        "answer": {"mean": 3.8, "p50": 4, "p95": 6, "p99": 6, "max": 6},
    }


def test_characters_by_hand():
    characters = summary_of(**EXAMPLE)["characters"]
    # Lengths add up to 5 + 9 + 19. The line break, the comma and the smile are characters too.
    assert characters["total"] == 33
    assert characters["different"] == len(set("胃痛两天少吃头多睡\n早查镜😊咳嗽喝水，龘")) == 20
    # Validation has 查 镜 😊 of its 7; test 咳 嗽 喝 水 ， 龘 水 of its 11.
    assert characters["unknown_rate"] == {"validation": 3 / 7, "test": 7 / 11}


def test_a_character_that_stands_only_in_test():
    rows = [("题", "问", "答")] * 3
    characters = summary_of(train=rows, validation=rows, test=[*rows, ("题", "问", "髎")])["characters"]
    assert characters["unknown_rate"] == {"validation": 0.0, "test": 1 / 12}


def test_coverage_by_hand():
    # 990 一, 9 二 and one 三 in 1,000 characters.
    counts = np.zeros(100, dtype=np.int64)
    counts[[7, 50, 3]] = 990, 1, 9
    assert coverage(counts).tolist() == [0.99, 0.999, 1.0]
    texts = "一" * 990 + "二" * 9 + "三"
    characters = summary_of(train=[("", texts[:500], texts[500:])])["characters"]
    assert characters["coverage"] == {"0.99": 1, "0.999": 2, "0.9999": 3}


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 99, 100, 101, 250, 1000])
def test_percentiles_are_those_of_the_nearest_rank(size):
    rng = random.Random(size)
    lengths = [rng.randrange(1000) for _ in range(size)]
    ordered = sorted(lengths)
    # The smallest value that so many percent of all do not exceed.
    expected = {f"p{percent}": ordered[(size * percent + 99) // 100 - 1] for percent in (50, 95, 99)}
    expected |= {"mean": round(sum(lengths) / size, 2), "max": ordered[-1]}
    assert summarize_lengths(np.array(lengths)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_everything_equals_a_second_count(seed):
    rng = random.Random(seed)
    alphabet = (
        "的一是不了在有人我他这个们中来上大为和国" * 20 + "龘𠮷😊①Ａa \n" + "".join(map(chr, range(0x4E00, 0x4E80)))
    )

    def text(longest):
        return "".join(rng.choices(alphabet, k=rng.randrange(longest)))

    splits = {
        name: [(text(10), text(60), text(90) + "。") for _ in range(size)]
        for name, size in (("train", 40), ("validation", 10), ("test", 25))
    }
    summary = summary_of(**splits)
    counts = {name: Counter("".join(map("".join, rows))) for name, rows in splits.items()}
    together = sum(counts.values(), Counter())
    total = together.total()
    running = [count / total for count in accumulate(count for _, count in together.most_common())]
    assert summary["characters"] == {
        "total": total,
        "different": len(together),
        "coverage": {
            str(share): 1 + next(place for place, covered in enumerate(running) if covered >= share)
            for share in COVERAGES
        },
        "unknown_rate": {
            name: sum(count for character, count in counts[name].items() if character not in counts["train"])
            / counts[name].total()
            for name in ("validation", "test")
        },
    }
    for place, column in enumerate(("title", "question", "answer")):
        lengths = sorted(len(row[place]) for rows in splits.values() for row in rows)
        assert summary["lengths"][column]["mean"] == round(sum(lengths) / 75, 2)
        # 75 * 0.5 = 37.5, 75 * 0.95 = 71.25, 75 * 0.99 = 74.25: ranks 38, 72 and 75.
        assert [summary["lengths"][column][key] for key in ("p50", "p95", "p99", "max")] == [
            lengths[rank - 1] for rank in (38, 72, 75, 75)
        ]
