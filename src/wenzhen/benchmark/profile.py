"""Where the time of training steps goes."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

# What an operation belongs to, by its name; the first that fits.
GROUPS = (
    ("data", r"dataloader|pin_memory"),
    ("optimizer", r"adam|optimizer|foreach|vector_norm|clip"),
    ("loss", r"log_softmax|nll_loss|cross_entropy|logsumexp|gather|scatter|exp_?$"),
    ("attention", r"attention|softmax|bmm"),
    ("matrix products", r"(^|::|_)(mm|addmm|matmul|linear)(_|$|pointwise|backward)|gemm"),
    ("normalization", r"layer_norm"),
    ("dropout", r"dropout|bernoulli|random|rand|[gl][te]_?$"),
    ("copies and casts", r"copy|clone|cat$|stack|index|nonzero|pad|contiguous|memcpy|memset|fill|zero"),
)
OTHER = "other"
# What no operation accounts for: Python, and waiting.
REST = "between operations"
NAMES = (*(name for name, _ in GROUPS), OTHER, REST)


def make_profiler(device: str) -> profile:
    """Return a profiler of this thread's operations, and of the GPU's."""
    return profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])])


def group_of(operation: str) -> str:
    """Return the group of an operation."""
    name = operation.lower()
    return next((group for group, pattern in GROUPS if re.search(pattern, name)), OTHER)


def time_by_group(events: Iterable[Any], device: str, seconds: float) -> dict[str, float]:
    """Sum up the time of operations.

    Args:
        events: a profiler's `key_averages()`. Of an operation its own time counts, without that of those it calls; on
            a GPU, the time of what it started there.
        device: `cpu` or `cuda`.
        seconds: that passed meanwhile.

    Returns:
        The share of each of [`NAMES`] in the seconds.
    """
    groups = dict.fromkeys(NAMES, 0.0)
    for event in events:
        if event.device_type == torch.autograd.DeviceType.CPU:
            microseconds = event.self_cpu_time_total if device == "cpu" else event.self_device_time_total
            groups[group_of(event.key)] += microseconds / 1e6 / seconds
    groups[REST] = max(0.0, 1 - sum(groups.values()))
    return groups
