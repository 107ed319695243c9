"""A picture of where the model looked while it wrote an answer."""

import base64
import io
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.demo import texts
from wenzhen.demo.cards import message, render
from wenzhen.demo.failures import report
from wenzhen.errors import UsageError


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture or the reason why there is none, and the layers and heads to choose from: label and value."""

    html: str
    heads: tuple[tuple[str, str], ...] = ()


class AttentionPainter:
    """Draws attention with a model of its own: only eager attention returns its weights, and it is slower.

    Args:
        folder: a model folder for PyTorch.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # matplotlib's settings are the whole process'.
        self.lock = Lock()

    @cached_property
    def engine(self) -> PyTorchEngine:
        """The model, loaded when somebody first asks."""
        return PyTorchEngine(self.folder)

    def draw(self, question: str, text: str, head: str = "") -> Drawn:
        """Draw the alignment of a question and an answer.

        Args:
            question, text: as they stand on the page.
            head: `layer,head`, from 0; empty for the mean of all.
        """
        if not question or not text:
            return Drawn(message(texts.NO_ANSWER_YET, "plain"))
        try:
            with self.lock:
                return self.paint(question, text, head)
        except UsageError as error:
            chinese, english = (part.format(reason=error) for part in texts.NOT_DRAWN)
            return Drawn(message((chinese, english)))
        except Exception as error:
            report(error)
            return Drawn(message(texts.FAILED))

    def paint(self, question: str, text: str, head: str) -> Drawn:
        """Compute and draw.

        Raises:
            UsageError: the question is longer than a figure shows, or the model has no attention.
        """
        from wenzhen.explain.attention import Answer, longest_answer, measure_attention
        from wenzhen.explain.drawing import style
        from wenzhen.explain.drawing.attention import draw_alignment
        from wenzhen.explain.tokens import normalize, tokenize

        tokens = tokenize(self.engine.tokenizer, normalize(text, "answer"))
        limit = longest_answer(self.engine)
        answer = Answer(text, tokens.first(limit), True, len(tokens.ids) > limit)
        maps = measure_attention(self.engine, normalize(question, "question"), answer)
        layers, heads = maps.cross.shape[:2]
        names = [(f"{layer},{head}", layer, head) for layer in range(layers) for head in range(heads)]
        for name, layer, number in names:
            if name == head:
                maps = replace(maps, cross=maps.cross[layer : layer + 1, number : number + 1])
        picture = io.BytesIO()
        with style():
            draw_alignment(maps).savefig(picture, format="svg", metadata={"Date": None})
        choices = [(texts.HEAD_NAME.format(layer=layer + 1, head=n + 1), name) for name, layer, n in names]
        html = render(
            "attention", picture=base64.b64encode(picture.getvalue()).decode(), cut=answer.cut, count=len(maps.outputs)
        )
        return Drawn(html, ((texts.ALL_HEADS, ""), *choices))
