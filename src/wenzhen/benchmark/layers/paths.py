"""What waits for what: the operations that a layer does one after another, and the layers that a change needs to get
from the first input to the last output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from wenzhen.benchmark.layers.kinds import HEAD_DIM, Size, convolution, output, self_attention
from wenzhen.models.convolutional.configuration_convolutional import WenzhenConvolutionalConfig
from wenzhen.models.convolutional.modeling_convolutional import WenzhenConvolutionalGate
from wenzhen.models.recurrent.modeling_recurrent import CELLS, State

SIZE = Size(d=HEAD_DIM)
# Of the standard deviation 1/√d: with smaller weights a recurrent layer has forgotten its first input, as far as a
# number can tell, before it has read many.
GAIN = 4.0


class UnrolledRecurrence(nn.Module):
    """A recurrent layer that goes from token to token, by the project's own steps.

    Args:
        cell: one of [`CELLS`].
        layer: the same in one call, whose weights are used.
    """

    def __init__(self, cell: str, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.step = layer, CELLS[cell][2]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map `[batch, n, d]` to the states `[batch, n, d]`."""
        layer = self.layer
        tokens = nn.functional.linear(inputs, layer.weight_ih_l0, layer.bias_ih_l0).unbind(1)
        zeros = inputs.new_zeros(len(inputs), layer.hidden_size)
        state: State = (zeros, zeros) if isinstance(layer, nn.LSTM) else (zeros,)
        states = []
        for token in tokens:
            state = self.step(token, nn.functional.linear(state[0], layer.weight_hh_l0, layer.bias_hh_l0), state)
            states.append(state[0])
        return torch.stack(states, 1)


class CausalConvolution(nn.Module):
    """The gated convolution of a decoder layer, which reads its own token and every `dilation`-th before it."""

    def __init__(self, size: Size, dilation: int = 1) -> None:
        super().__init__()
        self.past, self.dilation = size.k - 1, dilation
        self.gate = WenzhenConvolutionalGate(WenzhenConvolutionalConfig(d_model=size.d, kernel_size=size.k), padding=0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map `[batch, n, d]` to the same shape."""
        batch, length = inputs.shape[:2]
        rest = -length % self.dilation
        # Tokens that are a multiple of the dilation apart become neighbours, in a sequence of their own.
        inputs = nn.functional.pad(inputs, (0, 0, 0, rest)).unflatten(1, (-1, self.dilation)).transpose(1, 2)
        outputs = self.gate(nn.functional.pad(inputs.flatten(0, 1), (0, 0, self.past, 0)))
        return outputs.unflatten(0, (batch, self.dilation)).transpose(1, 2).flatten(1, 2)[:, :length]


@dataclass(frozen=True, slots=True)
class Network:
    """Layers on top of each other.

    Args:
        title: shown.
        family: see [`wenzhen.benchmark.layers.kinds.Kind`].
        sequential, path: what table 4.2, or Vaswani et al. 2017 (table 1), says of operations in sequence and of the
            longest path.
        layer: makes a layer by its number from 0.
    """

    title: str
    family: str
    sequential: str
    path: str
    layer: Callable[[int], nn.Module]


def recurrent(cell: str) -> Network:
    """Describe a recurrent network."""

    def layer(index: int) -> nn.Module:
        made = CELLS[cell][0](SIZE.d, SIZE.d, batch_first=True)
        for parameter in made.parameters():
            nn.init.normal_(parameter, std=GAIN * SIZE.d**-0.5)
        return UnrolledRecurrence(cell, made)

    return Network(cell.upper(), "recurrent", sequential="n", path="n", layer=layer)


NETWORKS = {
    "self_attention": Network(
        title="self-attention",
        family="attention",
        sequential="1",
        path="1",
        layer=lambda index: self_attention(SIZE, "eager"),
    ),
    "lstm": recurrent("lstm"),
    "gru": recurrent("gru"),
    "rnn": recurrent("rnn"),
    "convolution": Network(
        title="convolution, both sides",
        family="convolutional",
        sequential="1",
        path="n/k",
        layer=lambda index: convolution(SIZE),
    ),
    "causal_convolution": Network(
        title="convolution, causal",
        family="convolutional",
        sequential="1",
        path="n/k",
        layer=lambda index: CausalConvolution(SIZE),
    ),
    "dilated_convolution": Network(
        title="convolution, dilated",
        family="convolutional",
        sequential="1",
        path="log_k(n)",
        layer=lambda index: CausalConvolution(SIZE, dilation=SIZE.k**index),
    ),
}


class DependencyCounter(TorchDispatchMode):
    """Counts, while it is on, how many operations every tensor had to wait for, one after another.

    Each of PyTorch's operations counts one, a matrix product as a sum of two tensors; a view of a tensor is none.
    """

    def __init__(self) -> None:
        super().__init__()
        # Tensors are held, or another one might get the number of one that is gone.
        self.waited: dict[int, tuple[torch.Tensor, int]] = {}

    def operations_before(self, tensor: torch.Tensor) -> int:
        """Return the operations on the longest way to a tensor."""
        return self.waited.get(id(tensor), (tensor, 0))[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        before = max(map(self.operations_before, tensors_in((args, kwargs))), default=0)
        for tensor in tensors_in(results):
            self.waited[id(tensor)] = tensor, before + (not func.is_view)
        return results


def tensors_in(arguments: Any) -> list[torch.Tensor]:
    """Return the tensors among arguments of an operation, wherever they stand."""
    return [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def operations_in_sequence(layers: Sequence[nn.Module], n: int) -> int:
    """Count the operations, one waiting for the other, that lie between a sequence of n tokens and the output of the
    last of some layers."""
    hidden_states = torch.randn(1, n, SIZE.d, dtype=torch.float64)
    with torch.no_grad(), DependencyCounter() as counter:
        for layer in layers:
            hidden_states = output(layer, hidden_states)
        return counter.operations_before(hidden_states)


def layers_to_the_end(network: Network, n: int) -> list[nn.Module]:
    """Put layers on top of each other until a change of the first of n inputs reaches the last output.

    What a layer has changed is changed anew for the next one, as much as at first: handed on as it is, the change
    would fade from layer to layer until no number could tell it.
    """
    layers: list[nn.Module] = []
    changed = torch.arange(n) == 0
    while not changed[-1]:
        layers.append(network.layer(len(layers)).double().eval())
        changed = reached(layers[-1], changed)
    return layers


@torch.no_grad()
def reached(layer: nn.Module, changed: torch.Tensor) -> torch.Tensor:
    """Tell, `[n]`, which outputs of a layer change, to the last bit, when the inputs change that `changed` names."""
    before = torch.randn(1, len(changed), SIZE.d, dtype=torch.float64)
    after = before + changed[None, :, None] * torch.randn_like(before)
    return (output(layer, before) != output(layer, after)).any(-1)[0]


def follow(network: Network, n: int) -> dict[str, int]:
    """Return `sequential`, the operations of one layer in sequence; `layers` from the first input to the last output;
    and `path`, the operations in sequence on that way."""
    torch.manual_seed(0)
    layers = layers_to_the_end(network, n)
    return {
        "sequential": operations_in_sequence(layers[:1], n),
        "layers": len(layers),
        "path": operations_in_sequence(layers, n),
    }
