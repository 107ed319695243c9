"""Time and memory of a layer, and the exponents with which they grow."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from wenzhen.benchmark.layers.kinds import Kind, Size, output

# What is short is measured again until so much time has passed; the shortest counts.
SECONDS = 0.05
# Of its best rate: where a layer has less, much of its time goes to what the table does not count, such as starting
# each operation, or waiting for memory.
SHARE = 2 / 3
# Fewer points make no line.
POINTS = 3
CLOCKS = {"computing": time.thread_time, "passing": time.perf_counter}
# The profiler's name of taking and giving back memory.
MEMORY_EVENT = "[memory]"


@dataclass(frozen=True, slots=True)
class Fit:
    """How a measure grows with a size.

    Args:
        exponent: of the power law through the measured points, by least squares of the logarithms.
        counted: that of a line through what was counted, at the same sizes.
        first, last: the sizes between which the points lie.
    """

    exponent: float
    counted: float
    first: int
    last: int


def make(kind: Kind, size: Size, batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a layer, its input, whose gradient is wanted too, and a gradient of its output."""
    torch.manual_seed(0)
    inputs = torch.randn(batch, size.n, kind.inputs * size.d, requires_grad=True)
    return kind.build(size).eval(), inputs, torch.randn(batch, size.n, size.d)


def time_layer(kind: Kind, size: Size, batch: int) -> tuple[float, float]:
    """Return the seconds of a forward pass without gradients, and of a forward and backward pass."""
    layer, inputs, gradient = make(kind, size, batch)

    def forward() -> None:
        with torch.inference_mode():
            layer(inputs)

    def train() -> None:
        for tensor in (inputs, *layer.parameters()):
            tensor.grad = None
        output(layer, inputs).backward(gradient)

    forward()
    return shortest(forward), shortest(train)


def shortest(run: Callable[[], None]) -> float:
    """Return the seconds of the shortest of some calls, one at least, by [`clock`]."""
    now = CLOCKS[clock()]
    best, end = float("inf"), now() + SECONDS
    while best == float("inf") or now() < end:
        begin = now()
        run()
        best = min(best, now() - begin)
    return best


def clock() -> str:
    """Return the name of the clock to go by: of one thread, the time that it computes, which leaves out what other
    processes take; of several, which wait for each other, the time that passes."""
    return "computing" if torch.get_num_threads() == 1 else "passing"


def kept_bytes(kind: Kind, size: Size, batch: int) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, parameters not counted."""
    layer, inputs, _ = make(kind, size, batch)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            # Views share what they show; and as long as it is held here, no other gets its address.
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        # The output is held until all is counted, or what it keeps would go.
        result = output(layer, inputs)
    total = sum(storage.nbytes() for storage in kept.values())
    del result
    return total


def peak_bytes(kind: Kind, size: Size, batch: int) -> int:
    """Return the most memory that a forward and backward pass takes at a time beyond parameters and input, the
    gradients of both included."""
    # Without it the profiler writes lines of its own to the terminal.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    layer, inputs, gradient = make(kind, size, batch)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        output(layer, inputs).backward(gradient)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == MEMORY_EVENT]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(np.cumsum(changes).max(initial=0))


def useful_range(rates: Sequence[float]) -> slice:
    """Return the sizes around that of the best rate, all of which have at least [`SHARE`] of it."""
    enough = np.asarray(rates) >= SHARE * max(rates)
    best = int(np.argmax(rates))
    first = best - int(np.argmin([*enough[best::-1], False])) + 1
    last = best + int(np.argmin([*enough[best:], False]))
    return slice(first, last)


def fit(sizes: Sequence[int], values: Sequence[float], counts: Sequence[float], chosen: slice) -> Fit | None:
    """Fit power laws to what was measured and to what was counted, None where there are too few points.

    Args:
        sizes: of the layer, growing.
        values: measured at each.
        counts: counted for each.
        chosen: the part of them to take.
    """
    points = sizes[chosen]
    if len(points) < POINTS:
        return None
    measured, counted = (slope(points, own[chosen]) for own in (values, counts))
    return Fit(measured, counted, points[0], points[-1])


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of a power law through some points."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
