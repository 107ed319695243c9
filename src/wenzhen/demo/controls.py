"""The controls of decoding, which explain themselves and are there only where they apply."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from wenzhen.answering.answerer import MAX_BEAMS, Answerer
from wenzhen.answering.decoding import DECODINGS, describe
from wenzhen.demo import texts
from wenzhen.demo.cards import message

if TYPE_CHECKING:
    import gradio as gr

# Setting -> least, largest, step; in the order of [`wenzhen.demo.handlers.chosen_decoding`].
RANGES = {
    "num_beams": (2, MAX_BEAMS, 1),
    "length_penalty": (0, 2, 0.05),
    "temperature": (0.1, 2, 0.05),
    "top_p": (0.05, 1, 0.05),
    "repetition_penalty": (1, 2, 0.05),
    "no_repeat_ngram_size": (0, 8, 1),
}
REPETITION = ("repetition_penalty", "no_repeat_ngram_size")
APPLICABLE: dict[str, tuple[str, ...]] = {
    texts.OWN: (),
    "greedy": REPETITION,
    "beam": ("num_beams", "length_penalty", *REPETITION),
    "sampling": ("temperature", "top_p", *REPETITION),
}


def decoding_controls(answerer: Answerer, chosen: str = texts.OWN, folded: bool = False) -> "list[gr.Component]":
    """Return the controls whose values [`wenzhen.demo.handlers.chosen_decoding`] takes, in its order; `folded`, with
    the finer ones out of sight."""
    import gradio as gr

    default = answerer.engine.default_generation_config
    own = describe(default)
    values = {
        "num_beams": DECODINGS["beam"].num_beams,
        "length_penalty": DECODINGS["beam"].length_penalty,
        "temperature": DECODINGS["sampling"].temperature,
        "top_p": DECODINGS["sampling"].top_p,
        # As the model's own setting is, where a control can say it.
        "repetition_penalty": min(max(default.repetition_penalty or 1, 1), 2),
        "no_repeat_ngram_size": min(default.no_repeat_ngram_size or 0, 8),
    }
    kind = gr.Radio([(label, name) for name, label in texts.DECODINGS.items()], value=chosen, show_label=False)
    explanation = gr.HTML(decoding_help(chosen, own))
    with gr.Accordion(texts.FINER, open=False) if folded else nullcontext():
        sliders = [slider(name, value, name in APPLICABLE[chosen]) for name, value in values.items()]

    def show(kind: str) -> list[Any]:
        return [decoding_help(kind, own), *(gr.update(visible=name in APPLICABLE[kind]) for name in values)]

    kind.change(show, kind, [explanation, *sliders], show_progress="hidden", queue=False, api_visibility="private")
    return [kind, *sliders]


def slider(name: str, value: float, visible: bool) -> "gr.Slider":
    """Return one control."""
    import gradio as gr

    minimum, maximum, step = RANGES[name]
    label, info = texts.SETTINGS[name]
    return gr.Slider(minimum, maximum, value, step=step, label=label, info=info, visible=visible, buttons=[])


def decoding_help(kind: str, own: str) -> str:
    """Return what a way to decode does, in words; `own` is how the model itself writes."""
    chinese, english = (text.format(own=own) for text in texts.DECODING_HELP[kind])
    return message((chinese, english), "plain")
