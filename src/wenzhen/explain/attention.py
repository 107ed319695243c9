"""Where the attention goes: the weights of every layer and head on a question and its answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wenzhen.explain.tokens import MAX_TOKENS, tokenize, tokenize_within

if TYPE_CHECKING:
    from wenzhen.answering.engines.pytorch import PyTorchEngine


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
        encoder: `[layers, heads, source_length, source_length]`.
        decoder: `[layers, heads, target_length, target_length]`.
        cross: `[layers, heads, target_length, source_length]`.
    """

    question: str
    answer: str
    generated: bool
    cut: bool
    source: list[str]
    inputs: list[str]
    outputs: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
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
            "layers": {"encoder": len(self.encoder), "decoder": len(self.decoder)},
            "heads": self.encoder.shape[1],
            "evenness": self.evenness.tolist(),
            "looks_most_at": [[token, self.source[i]] for token, i in zip(self.outputs, strongest, strict=True)],
        }


def measure_attention(engine: "PyTorchEngine", question: str, answer: str | None = None) -> AttentionMaps:
    """Compute the attention of a question and its answer.

    Args:
        engine: a model at work; it is switched to eager attention, which alone returns weights.
        question: a text.
        answer: what the decoder is to write; None for the model's own answer.

    Raises:
        UsageError: a text is longer than the model or the figures allow.
    """
    model, tokenizer = engine.model, engine.tokenizer
    source = tokenize_within(tokenizer, question, "question", engine.max_question_length + 1)
    limit = min(model.config.max_position_embeddings, MAX_TOKENS)
    if answer is None:
        ((_, written),) = engine.generate([question])
        text = written.text
        whole = tokenize(tokenizer, text)
        target = whole.first(limit)
        is_cut = len(whole.ids) > limit or not written.ended
    else:
        text = answer
        target = tokenize_within(tokenizer, answer, "answer", limit)
        is_cut = False
    model.set_attn_implementation("eager")
    ids = {"input_ids": source.ids, "labels": target.ids}
    tensors = {name: torch.tensor([values], device=model.device) for name, values in ids.items()}
    with torch.inference_mode():
        outputs = model(**tensors, use_cache=False, output_attentions=True)
    return AttentionMaps(
        question=question,
        answer=text,
        generated=answer is None,
        cut=is_cut,
        source=source.labels,
        inputs=[tokenizer.bos_token, *target.labels][: len(target.labels)],
        outputs=target.labels,
        encoder=stacked(outputs.encoder_attentions),
        decoder=stacked(outputs.decoder_attentions),
        cross=stacked(outputs.cross_attentions),
    )


def stacked(weights: tuple[torch.Tensor, ...]) -> np.ndarray:
    """Join the layers' weights of the only text, `[layers, heads, target_length, source_length]`, in float64."""
    return torch.cat(weights).to("cpu", torch.float64).numpy()
