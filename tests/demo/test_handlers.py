"""What the demo does with a question and with the controls' values."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from wenzhen.answering.answer import Answer
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.decoding import Decoding
from wenzhen.demo import handlers, texts
from wenzhen.demo.controls import APPLICABLE, RANGES
from wenzhen.demo.handlers import RefusedError, answers, chosen_decoding

SLIDERS = (5, 0.5, 0.9, 0.8, 1.2, 3)


@pytest.mark.parametrize(
    ("kind", "decoding"),
    [
        ("own", None),
        ("greedy", Decoding(repetition_penalty=1.2, no_repeat_ngram_size=3)),
        ("beam", Decoding(num_beams=5, length_penalty=0.5, repetition_penalty=1.2, no_repeat_ngram_size=3)),
        (
            "sampling",
            Decoding(do_sample=True, temperature=0.9, top_p=0.8, repetition_penalty=1.2, no_repeat_ngram_size=3),
        ),
    ],
)
def test_controls_that_do_not_apply_are_left_alone(kind: str, decoding: Decoding | None) -> None:
    assert chosen_decoding(kind, *SLIDERS) == decoding


def test_controls_are_in_the_handlers_order() -> None:
    names = list(chosen_decoding.__annotations__)
    assert names == ["kind", *RANGES, "return"]
    assert set(APPLICABLE) == set(texts.DECODINGS) == set(texts.DECODING_HELP)
    assert set(RANGES) == set(texts.SETTINGS)


def test_beams_are_bounded_whoever_asks() -> None:
    with pytest.raises(RefusedError, match="At most 8 beams, got 64"):
        chosen_decoding("beam", 64, *SLIDERS[1:])


def test_frames_are_bounded_and_nothing_is_lost(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def stream(question: str, decoding: Any) -> Iterator[Answer]:
        nonlocal now
        draft = Answer(question)
        yield draft
        for length in range(1, 101):
            now += 0.015
            yield replace(draft, text="字" * length)

    monkeypatch.setattr(answerer, "stream", stream)
    monkeypatch.setattr(handlers.time, "monotonic", lambda: 1000 + now)
    lengths = [len(answer.text) for answer in answers(answerer, "问", None)]
    # The draft and the first character at once, then one in 0.04 s of the 1.5 s that all of it takes, and the end.
    assert lengths[:3] == [0, 1, 4]
    assert len(lengths) <= 2 + 1.5 / 0.04 + 1
    assert lengths[-1] == 100


def test_long_texts_are_not_tokenized(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenize(question: str) -> int:
        raise AssertionError("a text that can only be refused was tokenized")

    monkeypatch.setattr(answerer.engine, "question_length", tokenize)
    with pytest.raises(RefusedError, match="1,000,000 characters"):
        next(answers(answerer, "痛" * 1_000_000, None))


@pytest.mark.parametrize("question", ["", " \n", "\u200b\ufeff", "\x00\x1b"])
def test_question_without_a_character_is_empty(answerer: Answerer, question: str) -> None:
    with pytest.raises(RefusedError, match="empty"):
        next(answers(answerer, question, None))
