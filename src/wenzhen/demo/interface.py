"""What programs call: the same answers as the page's, as text and as a whole."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from wenzhen.answering.answer import Answer
from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts
from wenzhen.demo.handlers import RefusedError, answers, named_decoding


def add_interface(answerer: Answerer, **how: Any) -> None:
    """Add the functions to the page that is being built, each with Gradio's settings `how`."""
    import gradio as gr

    def answer(question: str, decoding: str = texts.OWN) -> Iterator[str]:
        """Answer one question with the text alone, streamed: each value is the text so far.

        An emergency's notice or a caveat stands in the place of a text that was not generated.

        Args:
            question: in Chinese, one at a time; no longer than the model reads.
            decoding: own (the model's), greedy, beam, sampling, or one with settings, as beam:num_beams=8.
        """
        for grown in interface_answers(answerer, question, decoding):
            notice = f"{grown.safety.title}\n{grown.safety.advice}" if grown.safety else grown.caveat
            yield grown.text or notice

    def ask(question: str, decoding: str = texts.OWN) -> Iterator[dict[str, Any]]:
        """Answer one question with all there is to it, streamed: text, safety notice, department, evidence with
        similarities, confidence, caveat, decoding, engine, model, revision, seconds, and the notice to show beside it.

        Args:
            question: in Chinese, one at a time; no longer than the model reads.
            decoding: own (the model's), greedy, beam, sampling, or one with settings, as beam:num_beams=8.
        """
        for grown in interface_answers(answerer, question, decoding):
            yield asdict(grown)

    for function in (answer, ask):
        gr.api(function, api_name=function.__name__, **how)


def interface_answers(answerer: Answerer, question: str, decoding: str) -> Iterator[Answer]:
    """Yield an answer as it grows; what is refused becomes the program's error."""
    import gradio as gr

    try:
        yield from answers(answerer, question, named_decoding(decoding))
    except RefusedError as refused:
        raise gr.Error(str(refused), print_exception=False) from None
