"""Where an answer stands on the page, and what is put there as it grows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wenzhen.answering.answer import Answer
from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts
from wenzhen.demo.cards import evidence_panel, facts, head_card, message
from wenzhen.demo.handlers import RefusedError, answers, chosen_decoding

if TYPE_CHECKING:
    import gradio as gr


@dataclass(frozen=True)
class AnswerArea:
    """Where one answer is shown; `asked` is not, it keeps the question that the answer belongs to."""

    asked: "gr.Textbox"
    head: "gr.HTML"
    text: "gr.Textbox"
    facts: "gr.HTML"
    evidence: "gr.HTML"

    @property
    def outputs(self) -> "list[gr.Component]":
        """The components in the order of [`area_values`]."""
        return [self.asked, self.head, self.text, self.facts, self.evidence]


def answer_area(label: str = texts.ANSWER) -> AnswerArea:
    """Return the components of one answer."""
    import gradio as gr

    asked = gr.Textbox(visible=False)
    head = gr.HTML(padding=False)
    text = gr.Textbox(label=label, lines=5, max_lines=20, interactive=False, buttons=["copy"], elem_classes="answer")
    return AnswerArea(asked, head, text, gr.HTML(message(texts.WARNING)), gr.HTML(padding=False))


def area_values(answerer: Answerer, question: str, settings: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield what an answer's area shows as the answer grows, in the order of [`AnswerArea.outputs`]."""
    import gradio as gr

    try:
        growing = answers(answerer, question, chosen_decoding(*settings))
        answer = next(growing)
        yield whole_values(answerer, answer)
        for answer in growing:
            yield [gr.skip(), gr.skip(), answer.text, gr.skip(), gr.skip()]
        yield whole_values(answerer, answer)
    except RefusedError as refused:
        # The last answer must not stand beside a question that it does not answer.
        text = gr.update(value="", visible=True)
        yield ["", message((refused.chinese, refused.english)), text, message(texts.WARNING), ""]


def whole_values(answerer: Answerer, answer: Answer) -> list[Any]:
    """Return all that an area shows of an answer."""
    import gradio as gr

    stands_alone = bool(answer.safety or (answer.caveat and not answer.text))
    return [
        answer.question,
        head_card(answer),
        gr.update(value=answer.text, visible=not stands_alone),
        facts(answerer, answer),
        evidence_panel(answer),
    ]
