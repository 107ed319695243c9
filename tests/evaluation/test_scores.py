"""Scores of whole answers, of parts, and of resampled ones."""

import numpy as np
import pytest
import sacrebleu

from wenzhen.evaluation.bootstrap import resample
from wenzhen.evaluation.predictions import Prediction
from wenzhen.evaluation.scores import Scores
from wenzhen.models.likelihood import likelihood_metrics

TEXTS = {
    "多喝水，注意休息。": "多喝温水，好好休息。",
    "少吃盐，每天量血压。": "每天量血压，少吃盐。",
    "去医院拍片。": "不要紧。",
    "清淡饮食。": "清淡饮食。",
}
PREDICTIONS = [
    Prediction(str(row), "内科" if row % 2 else "外科", "问", answer, text, row > 0, 2.0 * row + 1, row + 3, row + 1.0)
    for row, (answer, text) in enumerate(TEXTS.items())
]


def test_all_answers_score_as_the_library_has_it() -> None:
    overall = Scores(PREDICTIONS, []).overall
    by_library = sacrebleu.corpus_bleu(list(TEXTS.values()), [list(TEXTS)], tokenize="char")
    assert overall["bleu4_char"] == pytest.approx(by_library.score, abs=1e-9)
    assert overall["questions"] == 4
    assert overall["ended"] == 0.75
    # (1 + 3 + 5 + 7) nats over (3 + 4 + 5 + 6) tokens.
    assert overall["loss"] == pytest.approx(16 / 18)
    assert overall["perplexity"] == pytest.approx(np.exp(16 / 18))
    assert overall["padded_loss"] == pytest.approx(10 / 800)
    assert overall["fact_recall"] is None
    assert overall["bleu4_char_signature"].startswith("nrefs:1|case:mixed")


def test_a_part_scores_as_if_it_were_all() -> None:
    scores = Scores(PREDICTIONS, ["血压", "拍片"])
    part = [PREDICTIONS[1], PREDICTIONS[2]]
    assert scores.of([1, 2]) == Scores(part, ["血压", "拍片"]).overall
    assert scores.of([1, 2])["fact_recall"] == 0.5


def test_a_replicate_is_the_score_of_the_answers_that_were_drawn() -> None:
    scores = Scores(PREDICTIONS, ["血压"])
    weights = resample(4, times=20)
    replicates = scores.replicates(weights)
    for time, row in enumerate(weights.tolist()):
        drawn = [PREDICTIONS[index] for index, count in enumerate(row) for _ in range(count)]
        expected = Scores(drawn, ["血压"]).overall
        for name, values in replicates.items():
            if expected[name] is None:
                assert np.isnan(values[time])
            else:
                assert values[time] == pytest.approx(expected[name], abs=1e-9), name


def test_answers_alone_have_what_needs_no_real_ones() -> None:
    bare = [
        Prediction("1", "", "问", None, "血压血压血压血压血压", True),
        Prediction("2", "", "问", None, "无", False),
    ]
    assert Scores(bare, ["血压"]).overall == {
        "questions": 2,
        "repetitive": 0.5,
        "ended": 0.5,
        # 10 characters of 2 kinds and one of another; 9 pairs of 2 kinds.
        "distinct1_char": 3 / 11,
        "distinct2_char": 2 / 9,
    }


def test_losses_are_those_of_the_training() -> None:
    statistics = np.array([[row.nll, row.tokens, row.padded_nll] for row in PREDICTIONS])
    overall = Scores(PREDICTIONS, []).overall
    assert {name: overall[name] for name in ("loss", "perplexity", "padded_loss")} == likelihood_metrics(statistics)
