"""Why scores are divided by √d: large scores saturate the softmax, and no gradient comes through (appendix A)."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import (
    WenzhenAttention,
    WenzhenCrossAttention,
    WenzhenForConditionalGeneration,
    WenzhenSelfAttention,
    eager_attention_forward,
)

HEAD_DIMS = (16, 64, 256)
SCALES = tuple(2.0**exponent for exponent in np.arange(-3, 5.5, 0.5))
QUERIES, KEYS = 256, 64
# Factors on the scaled scores of the whole model; without the √d its factor is √d.
MODEL_SCALES = tuple(2.0**exponent for exponent in range(-2, 7))
BATCH, LENGTH = 4, 32
# A query is starved whose gradient is less than this part of the root mean square.
STARVED = 0.01
KINDS = ("encoder", "decoder", "cross")
SEED = 0


@dataclass(frozen=True, slots=True)
class SoftmaxCurve:
    """Medians over random queries, one for each scale: the largest probability, and ‖∂p/∂x‖, the Jacobian's norm."""

    head_dim: int
    attention_score: str
    largest_probability: np.ndarray
    jacobian_norm: np.ndarray


@dataclass(frozen=True, slots=True)
class GradientCurve:
    """What becomes of the softmax, and of the gradient through it, in one attention of an untrained model.

    Each is an array with one number for each of the model's scales: the median over queries and heads of the largest
    probability; of ‖∂L/∂x‖ / ‖∂L/∂p‖, the share of the gradient that passes the softmax; the share of queries that get
    less than a hundredth of the root mean square of ‖∂L/∂x‖; and the norm of the gradient at the weights of the query
    projection.
    """

    attention: str
    layer: int
    largest_probability: np.ndarray
    passed: np.ndarray
    starved: np.ndarray
    query_gradient: np.ndarray


@dataclass(frozen=True, slots=True)
class Saturation:
    """The numbers of appendix A: `scales` belong to `softmax`; `config` and `model_scales` to `gradients`.

    `model_score` is the attention score that the model itself has; `gradients` are those of its shape with scaled_dot.
    """

    model_score: str
    scales: np.ndarray
    softmax: list[SoftmaxCurve]
    config: WenzhenConfig
    model_scales: np.ndarray
    gradients: list[GradientCurve]

    def summary(self) -> dict[str, Any]:
        """Return the numbers that the page tells, of the scales 1 (as the model computes) and √d (without the √d)."""
        as_is = int(np.flatnonzero(self.scales == 1)[0])
        with_root = int(np.flatnonzero(self.model_scales == 1)[0])
        without = int(np.flatnonzero(np.isclose(self.model_scales, math.sqrt(self.head_dim)))[0])
        first = self.gradients[0]
        return {
            "largest_probability": {
                score: {c.head_dim: float(c.largest_probability[as_is]) for c in self.of_score(score)}
                for score in ("scaled_dot", "dot")
            },
            "jacobian_norm": {
                score: {c.head_dim: float(c.jacobian_norm[as_is]) for c in self.of_score(score)}
                for score in ("scaled_dot", "dot")
            },
            "encoder_layers": self.config.encoder_layers,
            "decoder_layers": self.config.decoder_layers,
            "d_model": self.config.d_model,
            "attention_heads": self.config.attention_heads,
            "head_dim": self.head_dim,
            "model_score": self.model_score,
            "told_head_dims": self.told_head_dims,
            "largest_scale": float(self.model_scales[-1]),
            "first_encoder_layer": {
                name: {"scaled_dot": float(values[with_root]), "dot": float(values[without]), "end": float(values[-1])}
                for name, values in (
                    ("largest_probability", first.largest_probability),
                    ("passed", first.passed),
                    ("starved", first.starved),
                    ("query_gradient", first.query_gradient),
                )
            },
        }

    @property
    def head_dim(self) -> int:
        """The width of the model's heads, the d of its √d."""
        return int(self.config.d_model // self.config.attention_heads)

    @property
    def told_head_dims(self) -> list[int]:
        """The one of [`HEAD_DIMS`] that is nearest to the model's, by their ratio, and the largest."""
        nearest = min(HEAD_DIMS, key=lambda size: abs(math.log(size / self.head_dim)))
        return sorted({nearest, max(HEAD_DIMS)})

    def of_score(self, score: str) -> list[SoftmaxCurve]:
        """Return the curves of one attention score, by head size."""
        return [curve for curve in self.softmax if curve.attention_score == score]


def measure_saturation(config: WenzhenConfig | None = None) -> Saturation:
    """Compute appendix A on random queries and keys, and on an untrained model.

    Args:
        config: the model's shape; None for the thesis'.
    """
    config = config or WenzhenConfig()
    model_score = config.attention_score
    config = untrained_config(config)
    # The last one turns the scaled scores into plain ones.
    model_scales = np.array(sorted({*MODEL_SCALES, math.sqrt(config.d_model // config.attention_heads)}))
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        curves = [softmax_curve(size, score, SCALES) for score in ("scaled_dot", "dot") for size in HEAD_DIMS]
        gradients = gradient_curves(config, model_scales)
    return Saturation(model_score, np.array(SCALES), curves, config, model_scales, gradients)


def untrained_config(config: WenzhenConfig) -> WenzhenConfig:
    """Return the shape with the attention that appendix A is about and no dropout, which would blur the numbers."""
    config = copy.deepcopy(config)
    config.attention_score = "scaled_dot"
    config.dropout = 0.0
    return config


def softmax_jacobian(probabilities: torch.Tensor) -> torch.Tensor:
    """Return ∂p_i/∂x_j = p_i(1{i=j} − p_j), `[…, n, n]`, of softmax outputs `[…, n]`."""
    p = probabilities
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def softmax_curve(head_dim: int, attention_score: str, scales: tuple[float, ...]) -> SoftmaxCurve:
    """Scale the scores of random queries and keys, every entry from a standard normal distribution."""
    config = WenzhenConfig(d_model=head_dim, attention_heads=1, d_ff=1, attention_score=attention_score)
    attention = WenzhenCrossAttention(config, layer_idx=0)
    generator = torch.Generator().manual_seed(SEED)
    query = torch.randn(1, 1, QUERIES, head_dim, generator=generator)
    key = torch.randn(1, 1, KEYS, head_dim, generator=generator)
    largest, norms = [], []
    for scale in scales:
        _, weights = eager_attention_forward(attention, query, key, key, None, attention.scaling * scale)
        probabilities = weights[0, 0].double()
        largest.append(probabilities.max(-1).values.median().item())
        norms.append(torch.linalg.matrix_norm(softmax_jacobian(probabilities)).median().item())
    return SoftmaxCurve(head_dim, attention_score, np.array(largest), np.array(norms))


def gradient_curves(config: WenzhenConfig, scales: np.ndarray) -> list[GradientCurve]:
    """Measure every attention of an untrained model on random tokens, with its scores at each scale."""
    model = WenzhenForConditionalGeneration(config).eval()
    length = min(LENGTH, config.max_position_embeddings)
    tokens = torch.randint(config.vocab_size, (2, BATCH, length))
    model.set_attn_implementation("eager")
    progress = tqdm(scales, desc="gradients", disable=None, delay=2)
    measured = np.array([measure_gradients(model, tokens[0], tokens[1], scale) for scale in progress])
    names = [(kind, index) for kind in KINDS for index in range(len(attentions_of(model, kind)))]
    return [GradientCurve(kind, index + 1, *measured[:, row].T) for row, (kind, index) in enumerate(names)]


def attentions_of(model: WenzhenForConditionalGeneration, kind: str) -> list[WenzhenAttention]:
    """Return the attention modules of one of [`KINDS`], from the lowest layer up."""
    if kind == "encoder":
        return [layer.self_attn for layer in model.model.encoder.layers]
    return [layer.self_attn if kind == "decoder" else layer.cross_attn for layer in model.model.decoder.layers]


@contextmanager
def scores_scaled(attentions: list[WenzhenAttention], factor: float) -> Iterator[None]:
    """Multiply the scores of attention modules."""
    before = [attention.scaling for attention in attentions]
    for attention, scaling in zip(attentions, before, strict=True):
        attention.scaling = scaling * factor
    try:
        yield
    finally:
        for attention, scaling in zip(attentions, before, strict=True):
            attention.scaling = scaling


def measure_gradients(
    model: WenzhenForConditionalGeneration, input_ids: torch.Tensor, labels: torch.Tensor, scale: float
) -> list[tuple[float, float, float, float]]:
    """Return the four numbers of every attention that [`GradientCurve`] holds.

    Args:
        model: with eager attention.
        input_ids: questions, `[batch, source_length]`.
        labels: answers, `[batch, target_length]`.
        scale: factor on every score.
    """
    attentions = [attention for kind in KINDS for attention in attentions_of(model, kind)]
    model.zero_grad()
    with scores_scaled(attentions, scale):
        outputs = model(input_ids=input_ids, labels=labels, output_attentions=True)
        weights = [*outputs.encoder_attentions, *outputs.decoder_attentions, *outputs.cross_attentions]
        for probabilities in weights:
            probabilities.retain_grad()
        outputs.loss.backward()
    rows = []
    for attention, probabilities in zip(attentions, weights, strict=True):
        largest = probabilities.detach().max(-1).values.median().item()
        above, below = gradients_around_softmax(probabilities)
        passed = (below / above.clamp(min=torch.finfo(torch.float64).tiny)).median().item()
        starved = (below < STARVED * below.square().mean().sqrt()).double().mean().item()
        rows.append((largest, passed, starved, query_weight_gradient(attention)))
    return rows


def gradients_around_softmax(probabilities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ‖∂L/∂p‖ and ‖∂L/∂x‖ of each query, `[batch, heads, target_length]`, after a backward pass.

    Args:
        probabilities: softmax outputs that kept their gradient, `[batch, heads, target_length, source_length]`.
    """
    p, gradient = probabilities.detach().double(), probabilities.grad.double()
    below = (softmax_jacobian(p) @ gradient.unsqueeze(-1)).squeeze(-1)
    return gradient.norm(dim=-1), below.norm(dim=-1)


def query_weight_gradient(attention: WenzhenAttention) -> float:
    """Return the norm of the gradient at the query projection's weights."""
    if isinstance(attention, WenzhenSelfAttention):
        return float(attention.qkv_proj.weight.grad.chunk(3)[0].norm())
    return float(attention.q_proj.weight.grad.norm())
