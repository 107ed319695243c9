"""ROUGE against rouge-chinese and cases counted by hand."""

from collections.abc import Callable

import jieba
import pytest
from answer_pairs import PAIRS, PREDICTIONS, REFERENCES
from rouge_chinese import Rouge

from wenzhen.evaluation.metrics import CharacterRouge, WordRouge


def spaced_characters(text: str) -> str:
    return " ".join("".join(text.split()))


def by_library(cut: Callable[[str], str]) -> list[list[float]]:
    """Return the three scores of every pair; the library refuses texts without tokens, which score 0."""
    rows = []
    for prediction, reference in PAIRS:
        tokens = cut(prediction), cut(reference)
        if all(tokens):
            scores = Rouge().get_scores(*tokens)[0]
            rows.append([scores[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")])
        else:
            rows.append([0.0, 0.0, 0.0])
    return rows


def test_by_characters_is_rouge_chineses() -> None:
    expected = by_library(spaced_characters)
    assert CharacterRouge().scores(PREDICTIONS, REFERENCES).tolist() == expected
    score = CharacterRouge().compute(predictions=PREDICTIONS, references=REFERENCES)
    means = [100 * sum(column) / len(PAIRS) for column in zip(*expected, strict=True)]
    assert [score[key] for key in ("rouge1_char", "rouge2_char", "rougeL_char")] == pytest.approx(means)


def test_by_words_is_rouge_chineses(jieba_tokenizer: jieba.Tokenizer) -> None:
    def spaced_words(text: str) -> str:
        return " ".join(word for word in jieba_tokenizer.cut(text) if word.strip())

    expected = by_library(spaced_words)
    assert WordRouge().scores(PREDICTIONS, REFERENCES).tolist() == expected
    score = WordRouge().compute(predictions=PREDICTIONS, references=REFERENCES)
    means = [100 * sum(column) / len(PAIRS) for column in zip(*expected, strict=True)]
    assert [score[key] for key in ("rouge1_word", "rouge2_word", "rougeL_word")] == pytest.approx(means)


def test_rouge_l_is_f1_of_the_longest_common_subsequence() -> None:
    # 高血压要吃盐 is common: 6 of 7 characters on both sides; 好 against 不 has nothing in common.
    score = CharacterRouge().compute(predictions=["高血压要多吃盐", "好"], references=["高血压要少吃盐", "不"])
    assert score["rougeL_char"] == pytest.approx(100 * (6 / 7) / 2, abs=1e-4)


def test_rouge_l_crosses_sentences() -> None:
    score = CharacterRouge().compute(predictions=["多喝水。早睡。"], references=["早睡。多喝水。"])
    # The longest common subsequence is 多喝水。 of 7 characters each.
    assert score["rougeL_char"] == pytest.approx(100 * 4 / 7, abs=1e-4)


def test_rouge_1_and_2_count_each_kind_once() -> None:
    # 您, 好 against 您, 好, 吗; 您好, 好您 against 您好, 好吗.
    score = CharacterRouge().compute(predictions=["您好您好"], references=["您好吗"])
    assert score["rouge1_char"] == pytest.approx(100 * 4 / 5, abs=1e-4)
    assert score["rouge2_char"] == pytest.approx(100 * 2 / 4, abs=1e-4)


def test_words_and_characters_differ() -> None:
    # 高血压, 患者, 吃盐 against 高血压, 病人, 吃盐: two of three words, five of seven characters.
    texts = {"predictions": ["高血压患者吃盐"], "references": ["高血压病人吃盐"]}
    assert WordRouge().compute(**texts)["rouge1_word"] == pytest.approx(100 * 2 / 3, abs=1e-4)
    assert CharacterRouge().compute(**texts)["rouge1_char"] == pytest.approx(100 * 5 / 7, abs=1e-4)
