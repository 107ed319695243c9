"""What masks hide (figure 3.4): the padding and causal masks that arrive at the model's attentions."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DataCollatorForSeq2Seq

from wenzhen.explain.tokens import TokenizedText
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenAttention, WenzhenForConditionalGeneration

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Masks:
    """Which key each query of a batch may see, True where it may, and the tokens beside them.

    Attributes:
        questions, answers: labels of the encoder's and the decoder's inputs, padding included, a list for each row.
        encoder: `[batch, source_length, source_length]`.
        decoder: as in training, where padding follows every answer, `[batch, target_length, target_length]`.
        decoder_padded: the same with the answers' padding masked too, as `decoder_attention_mask` asks.
        cross: `[batch, target_length, source_length]`.
    """

    questions: list[list[str]]
    answers: list[list[str]]
    encoder: np.ndarray
    decoder: np.ndarray
    decoder_padded: np.ndarray
    cross: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Return the share of pairs that each mask hides, and the batch's size."""
        masks = {name: getattr(self, name) for name in ("encoder", "decoder", "decoder_padded", "cross")}
        return {
            "batch": len(self.questions),
            "source_length": self.encoder.shape[-1],
            "target_length": self.decoder.shape[-1],
            "hidden": {name: float(1 - mask.mean()) for name, mask in masks.items()},
        }


def untrained_model(tokenizer: "PreTrainedTokenizerFast") -> WenzhenForConditionalGeneration:
    """Return a small model for a tokenizer: masks depend on no weight."""
    config = WenzhenConfig(
        vocab_size=len(tokenizer), d_model=16, attention_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1
    )
    return WenzhenForConditionalGeneration(config).eval()


def measure_masks(
    model: WenzhenForConditionalGeneration,
    tokenizer: "PreTrainedTokenizerFast",
    pairs: Sequence[tuple[TokenizedText, TokenizedText]],
) -> Masks:
    """Run a batch through the model and record the masks that its attentions get.

    Args:
        model: switched to eager attention, whose masks are numbers added to the scores.
        tokenizer: the model's.
        pairs: questions and answers, no longer than the model reads and writes.
    """
    questions, answers = zip(*pairs, strict=True)
    collate = DataCollatorForSeq2Seq(tokenizer, model=model)
    rows = [{"input_ids": q.ids, "labels": a.ids} for q, a in zip(questions, answers, strict=True)]
    batch = collate(rows).to(model.device)
    model.set_attn_implementation("eager")
    masks = recorded_masks(model, batch)
    # Behind the start token stand the answer's tokens but the last; labels of -100 are padding.
    real = torch.nn.functional.pad(batch["labels"][:, :-1] != -100, (1, 0), value=True)
    padded = recorded_masks(model, {**batch, "decoder_attention_mask": real.long()})
    source_length, target_length = batch["input_ids"].shape[1], batch["labels"].shape[1]
    pad, start = tokenizer.pad_token, tokenizer.bos_token
    return Masks(
        questions=[[*q.labels, *[pad] * (source_length - len(q.labels))] for q in questions],
        answers=[[start, *a.labels, *[pad] * (target_length - len(a.labels))][:target_length] for a in answers],
        encoder=masks["encoder"],
        decoder=masks["decoder"],
        decoder_padded=padded["decoder"],
        cross=masks["cross"],
    )


def recorded_masks(model: WenzhenForConditionalGeneration, batch: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return the masks of the lowest attentions, which all layers share: `encoder`, `decoder` and `cross`."""
    below = {
        "encoder": model.model.encoder.layers[0].self_attn,
        "decoder": model.model.decoder.layers[0].self_attn,
        "cross": model.model.decoder.layers[0].cross_attn,
    }
    recorded: dict[str, np.ndarray] = {}
    with recording(below, recorded), torch.inference_mode():
        model(**batch, use_cache=False)
    return recorded


@contextmanager
def recording(attentions: dict[str, WenzhenAttention], recorded: dict[str, np.ndarray]) -> Iterator[None]:
    """Write what each attention may see, `[batch, target_length, source_length]`, into `recorded` as it is called."""

    def recorder(name: str) -> Any:
        def record(module: WenzhenAttention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
            queries = given["hidden_states"]
            keys = given.get("encoder_hidden_states", queries)
            shape = (queries.shape[0], queries.shape[1], keys.shape[1])
            mask = given.get("attention_mask")
            # None hides nothing. What is hidden gets the least number there is.
            visible = torch.ones(shape) if mask is None else mask[:, 0] == 0
            recorded[name] = visible.expand(shape).bool().cpu().numpy()

        return record

    hooks = [
        attention.register_forward_pre_hook(recorder(name), with_kwargs=True) for name, attention in attentions.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
