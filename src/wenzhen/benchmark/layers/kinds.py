"""The layers that table 4.2 compares, as the project's models have them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from wenzhen.models.convolutional.configuration_convolutional import WenzhenConvolutionalConfig
from wenzhen.models.convolutional.modeling_convolutional import WenzhenConvolutionalEncoderLayer
from wenzhen.models.recurrent.modeling_recurrent import CELLS
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenSelfAttention

# As in the thesis: a wider attention has more heads, not wider ones.
HEAD_DIM = 64


@dataclass(frozen=True, slots=True)
class Size:
    """Length n of the sequence, width d of the layer and size k of a convolution's kernel, by the table's letters."""

    n: int = 256
    d: int = 256
    k: int = WenzhenConvolutionalConfig().kernel_size


Count = Callable[[Size], float]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of layer.

    Args:
        title: shown.
        family: `attention`, `recurrent` or `convolutional`.
        build: makes the layer. It maps `[batch, n, inputs · d]` to `[batch, n, d]`, as the first of what it returns or
            alone.
        operations: multiplications and additions of the forward pass in matrix products, of one sequence.
        activations: numbers that the backward pass needs, of one sequence, up to a factor.
        exponents: those of time in table 4.2, by the letters of [`Size`].
        inputs: how wide the input is.
    """

    title: str
    family: str
    build: Callable[[Size], nn.Module]
    operations: Count
    activations: Count
    exponents: Mapping[str, int]
    inputs: int = 1


def self_attention(size: Size, implementation: str = "sdpa") -> nn.Module:
    """Make the self-attention of an encoder layer."""
    config = WenzhenConfig(d_model=size.d, attention_heads=size.d // HEAD_DIM, attn_implementation=implementation)
    return WenzhenSelfAttention(config, layer_idx=0, is_causal=False)


def attention_alone(size: Size, implementation: str = "sdpa") -> nn.Module:
    """Make a self-attention without projections, which takes queries, keys and values side by side: what table 4.2
    counts."""
    attention = self_attention(size, implementation)
    attention.qkv_proj = attention.out_proj = nn.Identity()
    return attention


def convolution(size: Size) -> nn.Module:
    """Make the gated convolution of an encoder layer."""
    return WenzhenConvolutionalEncoderLayer(WenzhenConvolutionalConfig(d_model=size.d, kernel_size=size.k, dropout=0))


def recurrent(cell: str, gates: int) -> Kind:
    """Describe a recurrent layer that reads forwards, in one call to PyTorch."""
    return Kind(
        title=cell.upper(),
        family="recurrent",
        build=lambda size: CELLS[cell][0](size.d, size.d, batch_first=True),
        # Input and state are multiplied with a d × d matrix for each gate.
        operations=lambda size: 4 * gates * size.n * size.d**2,
        activations=lambda size: size.n * size.d,
        exponents={"n": 1, "d": 2},
    )


QUADRATIC = {"n": 2, "d": 1}
KINDS = {
    "self_attention": Kind(
        title="self-attention",
        family="attention",
        build=self_attention,
        # Four projections beside what the table counts, which outweighs them where n is far above 2d.
        operations=lambda size: 8 * size.n * size.d**2 + 4 * size.n**2 * size.d,
        activations=lambda size: size.n * size.d,
        exponents=QUADRATIC,
    ),
    "attention": Kind(
        title="attention alone",
        family="attention",
        build=attention_alone,
        operations=lambda size: 4 * size.n**2 * size.d,
        activations=lambda size: size.n * size.d,
        exponents=QUADRATIC,
        inputs=3,
    ),
    "written_out": Kind(
        title="attention written out",
        family="attention",
        build=lambda size: attention_alone(size, "eager"),
        operations=lambda size: 4 * size.n**2 * size.d,
        # Queries, keys and values, and the weights of d / HEAD_DIM heads.
        activations=lambda size: 3 * size.n * size.d + size.n**2 * size.d / HEAD_DIM,
        exponents=QUADRATIC,
        inputs=3,
    ),
    "lstm": recurrent("lstm", gates=4),
    "gru": recurrent("gru", gates=3),
    "rnn": recurrent("rnn", gates=1),
    "convolution": Kind(
        title="convolution",
        family="convolutional",
        build=convolution,
        # To 2d features, half of which are the gates.
        operations=lambda size: 4 * size.k * size.n * size.d**2,
        activations=lambda size: size.n * size.d,
        exponents={"n": 1, "d": 2, "k": 1},
    ),
}


def output(layer: Callable[[torch.Tensor], Any], inputs: torch.Tensor) -> torch.Tensor:
    """Return what a layer makes of `[batch, n, …]`, without the weights or states that it returns beside it."""
    returned = layer(inputs)
    return returned[0] if isinstance(returned, tuple) else returned
