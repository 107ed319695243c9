"""BLEU against sacreBLEU, NLTK and cases counted by hand."""

import math
import warnings

import pytest
from answer_pairs import PAIRS, PREDICTIONS, REFERENCES
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from sacrebleu.metrics import BLEU

from wenzhen.evaluation.metrics import CharacterBleu, ChineseBleu, LectureBleu, PTuningBleu

SACRE = {"char": (CharacterBleu, "bleu4_char_signature"), "zh": (ChineseBleu, "bleu_zh_signature")}


@pytest.mark.parametrize("tokenization", SACRE)
def test_is_sacrebleus(tokenization: str) -> None:
    metric_class, signature = SACRE[tokenization]
    score = metric_class().compute(predictions=PREDICTIONS, references=REFERENCES)
    for order in (1, 2, 3, 4):
        bleu = BLEU(tokenize=tokenization, max_ngram_order=order)
        expected = bleu.corpus_score(PREDICTIONS, [REFERENCES])
        assert score[f"bleu{order}_{tokenization}"] == expected.score
        assert score[signature] == str(bleu.get_signature())


@pytest.mark.parametrize("tokenization", SACRE)
def test_is_sacrebleus_on_every_answer_alone(tokenization: str) -> None:
    metric = SACRE[tokenization][0]()
    values = metric.values(metric.statistics(PREDICTIONS, REFERENCES))
    for order in (1, 4):
        bleu = BLEU(tokenize=tokenization, max_ngram_order=order)
        expected = [bleu.corpus_score([prediction], [[reference]]).score for prediction, reference in PAIRS]
        assert values[f"bleu{order}_{tokenization}"].tolist() == expected


def test_a_case_counted_by_hand() -> None:
    # Against 高血压要少吃盐 the candidate shares 6 of 7 characters, 4 of 6 pairs, 2 of 5 triples, 1 of 4 quadruples.
    texts = {"predictions": ["高血压要多吃盐"], "references": ["高血压要少吃盐"]}
    expected = pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    assert CharacterBleu().compute(**texts)["bleu4_char"] == expected
    assert ChineseBleu().compute(**texts)["bleu4_zh"] == expected
    assert LectureBleu().compute(**texts)["bleu4_lecture"] == expected
    assert PTuningBleu().compute(**texts)["bleu4_ptuning"] == expected


def test_brevity_is_punished() -> None:
    score = CharacterBleu().compute(predictions=["少吃盐多喝水"], references=["少吃盐多喝水早睡觉"])
    assert score["bleu4_char"] == pytest.approx(100 * math.exp(1 - 9 / 6))


def test_the_worked_case_of_the_lecture() -> None:
    # A, B once and C, D match: 4 of 5; AB, BC and CD: 3 of 4; BCD: 1 of 3; no four in a row: 0 of 2.
    statistics = CharacterBleu().statistics(["ABBCD"], ["ABCDEF"])
    assert statistics.tolist() == [[5, 6, 4, 3, 1, 0, 5, 4, 3, 2]]
    assert LectureBleu().compute(predictions=["ABBCD"], references=["ABCDEF"])["bleu4_lecture"] == 0
    # One more letter, and four in a row match: 5/6, 4/5, 2/4, 1/3, as long as the reference.
    score = LectureBleu().compute(predictions=["ABBCDE"], references=["ABCDEF"])
    assert score["bleu4_lecture"] == pytest.approx(100 * (5 / 6 * 4 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    # The beginning alone: all of it matches, two letters are missing.
    score = LectureBleu().compute(predictions=["ABCD"], references=["ABCDEF"])
    assert score["bleu4_lecture"] == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_the_lectures_is_nltks_unsmoothed() -> None:
    texts = [("".join(prediction.split()), "".join(reference.split())) for prediction, reference in PAIRS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a score is 0
        expected = [sentence_bleu([list(reference)], list(prediction)) for prediction, reference in texts]
    scores = LectureBleu().scores(PREDICTIONS, REFERENCES)[:, 0]
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)


def test_p_tunings_is_nltks_smoothed_by_method_3() -> None:
    smoothing = SmoothingFunction().method3
    expected = [
        sentence_bleu([list(reference)], list(prediction), smoothing_function=smoothing)
        for prediction, reference in PAIRS
    ]
    assert PTuningBleu().scores(PREDICTIONS, REFERENCES)[:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    score = PTuningBleu().compute(predictions=PREDICTIONS, references=REFERENCES)
    assert score["bleu4_ptuning"] == pytest.approx(100 * sum(expected) / len(expected))
