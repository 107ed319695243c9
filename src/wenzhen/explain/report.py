"""The folder that `wenzhen explain` leaves: figures, their numbers and the page, whole or not at all."""

import dataclasses
import json
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import UsageError
from wenzhen.explain import TOPICS, attention, drawing, masks, positions, saturation
from wenzhen.explain.drawing import attention as attention_figures
from wenzhen.explain.drawing import masks as masks_figures
from wenzhen.explain.drawing import positions as positions_figures
from wenzhen.explain.drawing import saturation as saturation_figures
from wenzhen.explain.page import write_page
from wenzhen.explain.tokens import TokenizedText, normalize, tokenize_within
from wenzhen.folders import check_output_folder, published_folder
from wenzhen.models.families import family_of
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.tokenization import load_tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from transformers import PreTrainedTokenizerFast

    from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

SUMMARY_FILE, PAGE = "explain.json", "index.html"
# What the folder may hold, as patterns; the first one marks it as ours.
CONTENTS = (SUMMARY_FILE, PAGE, *(f"{topic}*.{kind}" for topic in TOPICS for kind in ("png", "svg", "json")))
QUESTION, ANSWER = "高血压平时要注意什么？", "清淡饮食，定期量血压。"
# Shares the batch of masks with the pair that is asked for, so that one of the two is padded.
SHORT_PAIR = ("咳嗽怎么办？", "多喝温水。")
# What stands in the model itself.
LEFT_OUT = ("table", "config")
DIGITS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A topic's numbers, as its module returns them, its figures by name, and the model folder that they are of.

    `circumstances` are what the page tells beside the numbers.
    """

    model: str | None
    result: Any
    figures: "dict[str, Figure]"
    circumstances: dict[str, Any] = dataclasses.field(default_factory=dict)


class Explainer:
    """Computes and draws topics.

    Args:
        model: a model folder, or a tokenizer folder, which is enough for masks. None where the topics need none.
        is_shape: whether saturation and positions are to be those of this model too, and not the thesis'.
        question: what to show; None for an example.
        answer: what to show; None for the model's own answer, or under masks for the example's.

    Raises:
        UsageError: a text is empty.
    """

    def __init__(self, model: Path | None, is_shape: bool, question: str | None, answer: str | None) -> None:
        self.model = model
        self.is_shape = is_shape
        self.is_example = question is None
        self.question = QUESTION if question is None else normalize(question, "question")
        self.given_answer = None if answer is None else normalize(answer, "answer")

    @cached_property
    def engine(self) -> PyTorchEngine:
        """The model at work, in float32."""
        if self.model is None:
            raise UsageError("there is no model folder; make one with: make quickstart")
        if is_tokenizer_folder(self.model):
            raise UsageError(
                f"{self.model} holds a tokenizer and no model, which is enough for masks alone: "
                f"wenzhen explain masks {self.model}"
            )
        engine = PyTorchEngine(self.model)
        engine.model.float()
        return engine

    def refusal(self) -> str | None:
        """Return why the model cannot be put to work; None where it can."""
        try:
            _ = self.engine
        except UsageError as error:
            return str(error)
        return None

    @cached_property
    def answer(self) -> attention.Answer:
        """What the model is shown to write: what was given, or else its own answer."""
        if self.given_answer is None:
            return attention.own_answer(self.engine, self.question)
        return attention.given_answer(self.engine, self.given_answer)

    def explain(self, topic: str) -> Explanation:
        """Compute and draw one of the topics.

        Raises:
            UsageError: the model cannot be loaded or is another network than the topic's, or a text is too long for
                it.
        """
        if topic != "attention" and (self.is_shape or topic == "masks"):
            self.check_family(topic)
        if topic == "saturation":
            saturated = saturation.measure_saturation(self.engine.model.config if self.is_shape else None)
            return Explanation(self.shape, saturated, saturation_figures.draw(saturated))
        if topic == "positions":
            module = self.engine.model.model.encoder.positions if self.is_shape else None
            placed = positions.measure_positions(module)
            return Explanation(self.shape, placed, positions_figures.draw(placed))
        if topic == "masks":
            recorded, circumstances = self.measure_masks()
            return Explanation(str(self.model), recorded, masks_figures.draw(recorded), circumstances)
        maps = attention.measure_attention(self.engine, self.question, self.answer)
        return Explanation(str(self.model), maps, attention_figures.draw(maps))

    def check_family(self, topic: str) -> None:
        """Refuse a model without the part of a Transformer that a topic is about."""
        untrained = self.model is not None and is_tokenizer_folder(self.model)
        if not untrained and (kind := self.engine.model.config.model_type) != WenzhenConfig.model_type:
            raise UsageError(f"{topic} are of a Transformer, and {self.model} holds a {family_of(kind)} network")

    @property
    def shape(self) -> str | None:
        """The model whose shape saturation and positions have; None for the thesis'."""
        return str(self.model) if self.is_shape else None

    def measure_masks(self) -> tuple[masks.Masks, dict[str, Any]]:
        """Record the masks of a batch of two, with the model of the folder, or an untrained one for its tokenizer."""
        untrained = self.model is not None and is_tokenizer_folder(self.model)
        model, tokenizer = self.untrained_model() if untrained else (self.engine.model, self.engine.tokenizer)
        # The example's answer is none to another question.
        needs_answer = self.given_answer is None and not self.is_example
        circumstances = {
            "untrained": untrained,
            "generated": needs_answer and not untrained,
            "unrelated": needs_answer and untrained,
        }
        limit = model.config.max_position_embeddings

        def tokenize(question: str, answer: str) -> tuple[TokenizedText, TokenizedText]:
            return (
                tokenize_within(tokenizer, question, "question", limit),
                tokenize_within(tokenizer, answer, "answer", limit),
            )

        if circumstances["generated"]:
            pair = (tokenize_within(tokenizer, self.question, "question", limit), self.answer.tokens)
        else:
            pair = tokenize(self.question, self.given_answer or ANSWER)
        return masks.measure_masks(model, tokenizer, [pair, tokenize(*SHORT_PAIR)]), circumstances

    def untrained_model(self) -> "tuple[WenzhenForConditionalGeneration, PreTrainedTokenizerFast]":
        """Return a small model for the tokenizer of the folder, and the tokenizer.

        Raises:
            UsageError: it cannot be loaded.
        """
        assert self.model is not None
        tokenizer = load_tokenizer(self.model)
        return masks.untrained_model(tokenizer), tokenizer


def is_tokenizer_folder(folder: Path) -> bool:
    """Tell whether a folder holds a tokenizer and no model."""
    return (folder / "tokenizer.json").is_file() and not (folder / "config.json").is_file()


def write_report(explainer: Explainer, topics: Sequence[str], output: Path, overwrite: bool) -> dict[str, Any]:
    """Write figures, numbers and page.

    Args:
        explainer: what to explain.
        topics: some of [`TOPICS`].
        output: a folder, new or empty.
        overwrite: whether it may hold an earlier result, which is replaced.

    Returns:
        What `explain.json` holds: for each topic its model and the numbers that the page tells.

    Raises:
        UsageError: a folder or a text is not usable.
    """
    check_output_folder(output, CONTENTS, overwrite)
    with drawing.style():
        # Saturation last: what is wrong with a model or a text is said before it takes its time.
        explained = {topic: explainer.explain(topic) for topic in sorted(topics, key=TOPICS.index, reverse=True)}
        explanations = {topic: explained[topic] for topic in topics}
        with published_folder(output, CONTENTS, overwrite) as draft:
            for topic, explanation in explanations.items():
                for name, figure in explanation.figures.items():
                    drawing.save(figure, draft, name)
                write_json(draft / f"{topic}.json", as_numbers(explanation.result))
            summary = {
                topic: {
                    "model": explanation.model,
                    **explanation.circumstances,
                    **as_numbers(explanation.result.summary()),
                }
                for topic, explanation in explanations.items()
            }
            write_json(draft / SUMMARY_FILE, summary)
            write_page(draft / PAGE, summary, {topic: list(explanations[topic].figures) for topic in topics})
    return summary


def write_json(file: Path, numbers: Any) -> None:
    """Write a file of numbers."""
    file.write_text(json.dumps(numbers, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def as_numbers(value: Any) -> Any:
    """Return a result as JSON takes it: arrays as lists, floats with some digits, null for what is no number."""
    if dataclasses.is_dataclass(value):
        members = (field.name for field in dataclasses.fields(value))
        return {name: as_numbers(getattr(value, name)) for name in members if name not in LEFT_OUT}
    if isinstance(value, dict):
        return {str(name): as_numbers(member) for name, member in value.items()}
    if isinstance(value, np.ndarray):
        return as_numbers(value.astype(int).tolist() if value.dtype == bool else value.tolist())
    if isinstance(value, list | tuple):
        return [as_numbers(member) for member in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
