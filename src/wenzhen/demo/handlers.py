"""What the demo does with a question: checked, answered, and told in words that its visitor understands."""

import time
from collections.abc import Iterator
from dataclasses import replace

from wenzhen.answering.answer import Answer
from wenzhen.answering.answerer import MAX_BEAMS, Answerer, without_controls
from wenzhen.answering.decoding import Decoding, decoding_named
from wenzhen.demo import texts
from wenzhen.demo.failures import report
from wenzhen.errors import UsageError

# A page is not drawn more often; what comes in between is shown with what follows it.
SECONDS_BETWEEN_FRAMES = 0.04


class RefusedError(Exception):
    """A question or a way to answer that the demo does not take, in Chinese and English."""

    def __init__(self, text: tuple[str, str], **values: object) -> None:
        self.chinese, self.english = (part.format(**values) for part in text)
        super().__init__(f"{self.chinese} {self.english}")


def answers(answerer: Answerer, question: str, decoding: Decoding | None) -> Iterator[Answer]:
    """Yield the answer as it grows; see [`Answerer.stream`].

    Raises:
        RefusedError: the question is empty or too long, the model cannot decode so, or something failed; of what the
            visitor wrote nothing is logged then.
    """
    waiting: Answer | None = None
    last, has_text = 0.0, False
    try:
        check_question(answerer, question)
        for answer in answerer.stream(question, decoding):
            waiting = answer
            # The first character waits for nothing.
            if not has_text or time.monotonic() - last >= SECONDS_BETWEEN_FRAMES:
                yield answer
                waiting, last, has_text = None, time.monotonic(), bool(answer.text)
        if waiting:
            yield waiting
    except RefusedError:
        raise
    except UsageError as error:
        raise RefusedError(texts.REFUSED, reason=error) from None
    except Exception as error:
        report(error)
        raise RefusedError(texts.FAILED) from None


def check_question(answerer: Answerer, question: str) -> None:
    """Refuse what the model cannot read, before much is computed of it."""
    if not isinstance(question, str):
        raise RefusedError(texts.NOT_TEXT)
    text = without_controls(question[: longest_input(answerer) + 1], keep="\n\t")
    if not text:
        raise RefusedError(texts.EMPTY)
    length, limit = len(question), answerer.engine.max_question_length
    if length <= longest_input(answerer):
        length = answerer.engine.question_length(text)
    if length > limit:
        raise RefusedError(texts.TOO_LONG, length=length, limit=limit)


def longest_input(answerer: Answerer) -> int:
    """Return how many characters are looked at; a model may read several of them as one token."""
    return max(2000, 8 * answerer.engine.max_question_length)


def named_decoding(name: str) -> Decoding | None:
    """Return a way to decode by its name, `own` for the model's.

    Raises:
        RefusedError: there is none of this name, or it asks for too much.
    """
    try:
        return bounded(None if name == texts.OWN else decoding_named(str(name)))
    except UsageError as error:
        raise RefusedError(texts.REFUSED, reason=error) from None


def chosen_decoding(
    kind: str,
    num_beams: float,
    length_penalty: float,
    temperature: float,
    top_p: float,
    repetition_penalty: float,
    no_repeat_ngram_size: float,
) -> Decoding | None:
    """Return the way to decode that the page's controls say; those that do not apply are left alone."""
    decoding = named_decoding(kind)
    if decoding is None:
        return None
    decoding = replace(decoding, repetition_penalty=repetition_penalty, no_repeat_ngram_size=int(no_repeat_ngram_size))
    if kind == "beam":
        decoding = replace(decoding, num_beams=int(num_beams), length_penalty=length_penalty)
    if kind == "sampling":
        decoding = replace(decoding, temperature=temperature, top_p=top_p)
    return bounded(decoding)


def bounded(decoding: Decoding | None) -> Decoding | None:
    """Return a way to decode that one visitor may ask for."""
    if decoding and decoding.num_beams > MAX_BEAMS:
        raise RefusedError(texts.TOO_MANY_BEAMS, limit=MAX_BEAMS, given=decoding.num_beams)
    return decoding
