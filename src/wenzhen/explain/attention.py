"""Where the attention goes: the weights of every layer and head on a question and its answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wenzhen.errors import UsageError
from wenzhen.explain.tokens import MAX_TOKENS, TokenizedText, tokenize, tokenize_within

if TYPE_CHECKING:
    from wenzhen.answering.engines.pytorch import PyTorchEngine


@dataclass(frozen=True, slots=True)
class Answer:
    """What the decoder is to write.

    Attributes:
        text: the answer.
        tokens: of as much of it as a figure shows; without eos where it is cut.
        generated: whether the model wrote it.
        cut: whether it goes on beyond `tokens`, or would have without the length limit.
    """

    text: str
    tokens: TokenizedText
    generated: bool
    cut: bool


def own_answer(engine: "PyTorchEngine", question: str) -> Answer:
    """Let the model answer."""
    ((_, written),) = engine.generate([question])
    whole = tokenize(engine.tokenizer, written.text)
    # What the length limit cut has no end that the model wrote; of special tokens alone no text is left, but the end.
    shown = whole if written.ended else whole.first(max(len(whole.ids) - 1, 1))
    limit = longest_answer(engine)
    return Answer(written.text, shown.first(limit), True, len(shown.ids) > limit or not written.ended)


def given_answer(engine: "PyTorchEngine", text: str) -> Answer:
    """Take somebody's answer.

    Raises:
        UsageError: it is longer than the model or the figures allow.
    """
    return Answer(text, tokenize_within(engine.tokenizer, text, "answer", longest_answer(engine)), False, False)


def longest_answer(engine: "PyTorchEngine") -> int:
    """Return how many tokens of an answer a figure of the model shows, its end included."""
    return min(engine.model.config.max_position_embeddings, MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Attention weights of one question and its answer; each row of each map sums to 1.

    Attributes:
        question, answer: the texts.
        generated: whether the model wrote the answer.
        cut: whether the answer goes on beyond what the maps show.
        source: labels of the question's tokens.
        inputs: labels of the decoder's inputs, the start token first.
        outputs: labels of the tokens that follow each of them: what the model is to write there.
        encoder: `[layers, heads, source_length, source_length]`; None of a network without self-attention.
        decoder: `[layers, heads, target_length, target_length]`; None as well.
        cross: `[layers, heads, target_length, source_length]`.
    """

    question: str
    answer: str
    generated: bool
    cut: bool
    source: list[str]
    inputs: list[str]
    outputs: list[str]
    encoder: np.ndarray | None
    decoder: np.ndarray | None
    cross: np.ndarray

    @property
    def alignment(self) -> np.ndarray:
        """The mean of the cross-attention over layers and heads, `[target_length, source_length]`."""
        return self.cross.mean((0, 1))

    @property
    def evenness(self) -> np.ndarray:
        """The cross-attention's entropy as a share of the largest there is, `[layers]`: 1 looks nowhere at all."""
        if len(self.source) == 1:
            return np.ones(len(self.cross))
        logarithms = np.log(self.cross, where=self.cross > 0, out=np.zeros_like(self.cross))
        entropy = -(self.cross * logarithms).sum(-1)
        return entropy.mean((1, 2)) / np.log(len(self.source))

    def summary(self) -> dict[str, Any]:
        """Return the texts and, for every written token, the question's token that it looked at most."""
        strongest = self.alignment.argmax(-1)
        return {
            "question": self.question,
            "answer": self.answer,
            "generated": self.generated,
            "cut": self.cut,
            "layers": {"encoder": 0 if self.encoder is None else len(self.encoder), "decoder": len(self.cross)},
            "heads": self.cross.shape[1],
            "evenness": self.evenness.tolist(),
            "looks_most_at": [[token, self.source[i]] for token, i in zip(self.outputs, strongest, strict=True)],
        }


def measure_attention(engine: "PyTorchEngine", question: str, answer: Answer) -> AttentionMaps:
    """Compute the attention of a question and its answer.

    Args:
        engine: a model at work; it is switched to eager attention, which alone returns weights.
        question: a text.
        answer: what the decoder is to write.

    Raises:
        UsageError: the question is longer than the model or the figures allow, or the model has no attention.
    """
    model, tokenizer = engine.model, engine.tokenizer
    if getattr(model.config, "attention_score", None) == "none":
        raise UsageError("the model has no attention to draw: its attention_score is none")
    source = tokenize_within(tokenizer, question, "question", engine.max_question_length + 1)
    target = answer.tokens
    model.set_attn_implementation("eager")
    ids = {"input_ids": source.ids, "labels": target.ids}
    tensors = {name: torch.tensor([values], device=model.device) for name, values in ids.items()}
    with torch.inference_mode():
        outputs = model(**tensors, use_cache=False, output_attentions=True)
    return AttentionMaps(
        question=question,
        answer=answer.text,
        generated=answer.generated,
        cut=answer.cut,
        source=source.labels,
        inputs=[tokenizer.bos_token, *target.labels][: len(target.labels)],
        outputs=target.labels,
        encoder=stacked(outputs.encoder_attentions),
        decoder=stacked(outputs.decoder_attentions),
        cross=stacked(outputs.cross_attentions),
    )


def stacked(weights: tuple[torch.Tensor, ...] | None) -> Any:
    """Join the layers' weights of the only text, `[layers, heads, target_length, source_length]`, in float64; None
    where there are none."""
    if not weights:
        return None
    return torch.cat(weights).to("cpu", torch.float64).numpy()
