"""The page: what stands where, and which handler answers to what."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts
from wenzhen.demo.about import about_model
from wenzhen.demo.area import AnswerArea, answer_area, area_values
from wenzhen.demo.attention import AttentionPainter
from wenzhen.demo.cards import message, render
from wenzhen.demo.controls import decoding_controls
from wenzhen.demo.handlers import longest_input
from wenzhen.demo.interface import add_interface

if TYPE_CHECKING:
    import gradio as gr

STYLE = Path(__file__).parent / "style.css"
# Waiting visitors beyond this are told to come back later.
QUEUE_SIZE = 64
# What is answered at a time, on the page and to programs together.
AT_A_TIME = 4
# Everything that makes the model write waits in one queue.
WRITING = {"concurrency_id": "writing", "concurrency_limit": AT_A_TIME}
PRIVATE = {"api_visibility": "private"}
SHOW_COMPARED = "() => { document.getElementById('compared').scrollIntoView({behavior: 'smooth'}); }"


def build_page(answerers: Sequence[Answerer]) -> "gr.Blocks":
    """Return the page of one model, or of two that are compared; `answerers[0]` is the one that is asked."""
    import gradio as gr

    first = answerers[0]
    with gr.Blocks(title=texts.TITLE, analytics_enabled=False) as page:
        gr.HTML(render("header"))
        with gr.Tab(texts.TABS["ask"], id="ask"):
            area = ask_tab(first)
        with gr.Tab(texts.TABS["compare"], id="compare"):
            compare_tab(answerers)
        with gr.Tab(texts.TABS["attention"], id="attention") as tab:
            attention_tab(first, area, tab)
        with gr.Tab(texts.TABS["about"], id="about"):
            gr.HTML("".join(about_model(answerer) for answerer in answerers))
        add_interface(first, **WRITING)
    return page.queue(max_size=QUEUE_SIZE, default_concurrency_limit=AT_A_TIME)


def ask_tab(answerer: Answerer) -> AnswerArea:
    """Lay out the question and the examples beside the answer."""
    import gradio as gr

    with gr.Row(equal_height=False, elem_classes="ask"):
        with gr.Column(scale=2):
            question = question_box(answerer)
            with gr.Row():
                ask, stop = ask_and_stop()
            with gr.Accordion(texts.DECODING, open=False):
                decoding = decoding_controls(answerer)
            with gr.Column(elem_classes="examples"):
                example_buttons(question)
        with gr.Column(scale=3):
            area = answer_area()
    asking = on_question([ask.click, question.submit], answerer, question, decoding, area)
    stop.click(None, cancels=asking, **PRIVATE)
    return area


def on_question(
    triggers: "list[gr.events.EventListener]",
    answerer: Answerer,
    question: "gr.Textbox",
    decoding: "list[gr.Component]",
    area: AnswerArea,
) -> "gr.events.Dependency":
    """Have a question answered into an area."""
    import gradio as gr

    def reply(question: str, *settings: Any) -> Iterator[list[Any]]:
        yield from area_values(answerer, question, settings)

    return gr.on(
        triggers,
        reply,
        inputs=[question, *decoding],
        outputs=area.outputs,
        show_progress="hidden",
        scroll_to_output=True,
        **WRITING,
        **PRIVATE,
    )


def question_box(answerer: Answerer) -> "gr.Textbox":
    """Return the field for a question."""
    import gradio as gr

    return gr.Textbox(
        label=texts.QUESTION,
        info=texts.QUESTION_HELP.format(limit=answerer.engine.max_question_length),
        placeholder=texts.QUESTION_PLACEHOLDER,
        lines=4,
        max_lines=10,
        # What is longer is refused, not cut to something that could be answered.
        max_length=longest_input(answerer) + 1,
    )


def ask_and_stop() -> "tuple[gr.Button, gr.Button]":
    """Return the two buttons below a question."""
    import gradio as gr

    return gr.Button(texts.ASK, variant="primary", min_width=120), gr.Button(texts.STOP, min_width=80)


def example_buttons(question: "gr.Textbox") -> None:
    """Lay out the examples by departments."""
    import gradio as gr

    examples = [(department, text) for department, all_of_it in texts.EXAMPLES.items() for text in all_of_it]
    gr.Examples(
        [text for _, text in examples],
        question,
        cache_examples=False,
        label=texts.EXAMPLES_TITLE,
        example_labels=[f"{department}｜{text}" for department, text in examples],
        **PRIVATE,
    )


def compare_tab(answerers: Sequence[Answerer]) -> None:
    """Lay out two answers to one question: of two models, or of one that writes in two ways."""
    import gradio as gr

    question = question_box(answerers[0])
    with gr.Row():
        ask, stop = ask_and_stop()
    other = texts.OWN if len(answerers) > 1 else "beam"
    sides = ((texts.LEFT, answerers[0], texts.OWN), (texts.RIGHT, answerers[-1], other))
    with gr.Row(equal_height=False):
        decodings = [side_controls(*side) for side in sides]
    with gr.Row(equal_height=False, elem_id="compared"):
        areas = [side_area(name) for name, *_ in sides]
    asking = [
        on_question([ask.click, question.submit], answerer, question, decoding, area)
        for (_, answerer, _), decoding, area in zip(sides, decodings, areas, strict=True)
    ]
    # The answers may stand below the window's edge.
    gr.on([ask.click, question.submit], None, js=SHOW_COMPARED, **PRIVATE)
    stop.click(None, cancels=asking, **PRIVATE)


def side_controls(name: str, answerer: Answerer, decoding: str) -> "list[gr.Component]":
    """Return the controls of one side of a comparison."""
    import gradio as gr

    with gr.Column(min_width=300):
        gr.HTML(render("side", name=name, answerer=answerer))
        return decoding_controls(answerer, decoding, folded=True)


def side_area(name: str) -> AnswerArea:
    """Return where one side of a comparison is shown."""
    import gradio as gr

    with gr.Column(min_width=300):
        return answer_area(f"{name} · {texts.ANSWER}")


def attention_tab(answerer: Answerer, area: AnswerArea, tab: "gr.Tab") -> None:
    """Lay out the picture of where the model looked while it wrote the answer of the first tab."""
    import gradio as gr

    gr.HTML(render("attention_help"))
    if answerer.engine.name != "PyTorch":
        chinese, english = (text.format(engine=answerer.engine.name) for text in texts.NO_ATTENTION)
        gr.HTML(message((chinese, english)))
        return
    painter = AttentionPainter(answerer.folder)
    head = gr.Dropdown([(texts.ALL_HEADS, "")], value="", label=texts.HEAD)
    picture = gr.HTML(message(texts.NO_ANSWER_YET, "plain"))

    def draw(question: str, text: str, head: str) -> list[Any]:
        drawn = painter.draw(str(question or ""), str(text or ""), head)
        return [gr.update(choices=drawn.heads) if drawn.heads else gr.skip(), drawn.html]

    gr.on(
        [tab.select, head.input],
        draw,
        inputs=[area.asked, area.text, head],
        outputs=[head, picture],
        show_progress_on=picture,
        concurrency_limit=1,
        # The server may have forgotten which heads this visitor's page offers.
        preprocess=False,
        **PRIVATE,
    )


def explanation_page(reason: str) -> "gr.Blocks":
    """Return a page that says why there is no model."""
    import gradio as gr

    with gr.Blocks(title=texts.TITLE, analytics_enabled=False) as page:
        gr.HTML(render("header"))
        gr.HTML(render("missing", reason=reason))
    return page
