"""All of table 4.2 in one result."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

import torch
from tqdm import tqdm

from wenzhen.benchmark.layers.costs import SHARE, clock, fit, kept_bytes, peak_bytes, time_layer, useful_range
from wenzhen.benchmark.layers.kinds import HEAD_DIM, KINDS, Kind, Size
from wenzhen.benchmark.layers.paths import NETWORKS, SIZE, follow
from wenzhen.benchmark.machine import describe_machine, package_versions
from wenzhen.errors import UsageError


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and how often.

    Args:
        lengths: n, growing, at the width and kernel size of [`Size`].
        widths: d, growing, multiples of [`HEAD_DIM`].
        kernel_sizes: k of the convolution, growing and odd.
        path_lengths: n at which paths are followed.
        batch_size: sequences at a time.
        repeats: rounds through all sizes, so that what else the machine does cannot meet all measurements of one.
        threads: of PyTorch.
    """

    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    widths: tuple[int, ...] = (64, 128, 256, 384, 512, 768, 1024)
    kernel_sizes: tuple[int, ...] = (3, 5, 9, 17)
    path_lengths: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    batch_size: int = 8
    repeats: int = 3
    threads: int = 1

    def sizes(self, kind: Kind) -> Iterator[tuple[str, list[Size]]]:
        """Yield each letter that a kind's time depends on, and the sizes that differ in it alone."""
        values = {"n": self.lengths, "d": self.widths, "k": self.kernel_sizes}
        for letter in kind.exponents:
            yield letter, [replace(Size(), **{letter: value}) for value in values[letter]]


@dataclass(slots=True)
class Costs:
    """Of one layer: the shortest times in seconds of a forward pass, and of a forward and backward pass; the bytes
    that the former keeps for the latter, and the most that both take at a time."""

    kept: int
    peak: int
    forward: float = float("inf")
    training: float = float("inf")


def benchmark_layers(plan: Plan) -> dict[str, Any]:
    """Measure on the CPU, in float32.

    Returns:
        `layers`: an entry for each of [`KINDS`], with `title`, `family`, `table` (the exponents of table 4.2), and
        `against`: by the letter of a size, see [`describe_costs`]. `paths`: an entry for each of [`NETWORKS`], with
        `title`, `family`, `table` (what the table says), `lengths`, and lists of what [`follow`] returns. `settings`,
        `machine` and `versions`.

    Raises:
        UsageError: the machine has too little memory for the sizes.
    """
    # Before the load is our own.
    machine, versions = describe_machine(), package_versions()
    check_memory(plan, machine["memory_gb"])
    torch.set_num_threads(plan.threads)
    sizes = {name: dict(plan.sizes(kind)) for name, kind in KINDS.items()}
    cases = [(name, size) for name, own in sizes.items() for size in dict.fromkeys(chain(*own.values()))]
    steps = len(NETWORKS) * len(plan.path_lengths) + (1 + plan.repeats) * len(cases)
    with torch.random.fork_rng(devices=[]), tqdm(total=steps, disable=None) as progress:
        paths = measure_paths(plan, progress)
        costs = measure_costs(plan, cases, progress)
    layers = {
        name: {
            "title": kind.title,
            "family": kind.family,
            "table": dict(kind.exponents),
            "against": {
                letter: describe_costs(kind, letter, own, [costs[name, size] for size in own], plan.batch_size)
                for letter, own in sizes[name].items()
            },
        }
        for name, kind in KINDS.items()
    }
    settings = {
        **asdict(plan),
        "device": "cpu",
        "clock": clock(),
        "dtype": "float32",
        "fixed": asdict(Size()),
        "head_dim": HEAD_DIM,
        "share": SHARE,
        "path_size": {"d": SIZE.d, "k": SIZE.k, "dtype": "float64"},
    }
    return {"settings": settings, "layers": layers, "paths": paths, "machine": machine, "versions": versions}


def check_memory(plan: Plan, memory_gb: float) -> None:
    """Refuse sizes for which the machine has too little memory.

    Raises:
        UsageError: it has less than what the backward pass needs, three times, and an LSTM's weights and gradients.
    """
    numbers, size = max(
        (
            (3 * plan.batch_size * kind.activations(size) + 16 * size.d**2, size)
            for kind in KINDS.values()
            for _, sizes in plan.sizes(kind)
            for size in sizes
        ),
        key=lambda pair: pair[0],
    )
    gigabytes = 4 * numbers / 2**30
    if gigabytes > memory_gb:
        raise UsageError(
            f"layers of length {size.n:,} and width {size.d:,} take about {gigabytes:,.0f} GB, and the machine has "
            f"{memory_gb:.0f}: lower --lengths or --widths"
        )


def measure_paths(plan: Plan, progress: "tqdm[Any]") -> dict[str, dict[str, Any]]:
    """Follow the paths through each network; see [`benchmark_layers`]."""
    paths = {}
    for name, network in NETWORKS.items():
        progress.set_description(f"paths of {network.title}")
        found = []
        for length in plan.path_lengths:
            found.append(follow(network, length))
            progress.update()
        paths[name] = {
            "title": network.title,
            "family": network.family,
            "table": {"sequential": network.sequential, "path": network.path},
            "lengths": list(plan.path_lengths),
            **{key: [one[key] for one in found] for key in found[0]},
        }
    return paths


def measure_costs(
    plan: Plan, cases: Sequence[tuple[str, Size]], progress: "tqdm[Any]"
) -> dict[tuple[str, Size], Costs]:
    """Measure the memory of each kind and size, then time all of them in rounds."""
    costs = {}
    for name, size in cases:
        progress.set_description(f"memory of {KINDS[name].title}")
        costs[name, size] = Costs(
            *(measure(KINDS[name], size, plan.batch_size) for measure in (kept_bytes, peak_bytes))
        )
        progress.update()
    for _ in range(plan.repeats):
        for name, size in cases:
            progress.set_description(f"time of {KINDS[name].title}")
            forward, training = time_layer(KINDS[name], size, plan.batch_size)
            case = costs[name, size]
            case.forward, case.training = min(case.forward, forward), min(case.training, training)
            progress.update()
    return costs


def describe_costs(
    kind: Kind, letter: str, sizes: Sequence[Size], costs: Sequence[Costs], batch_size: int
) -> dict[str, Any]:
    """Put what was measured against one letter of the sizes into figures.

    Returns:
        `sizes`; `forward_seconds`, `training_seconds` (of both passes), `gflops` of the forward pass (what
        [`Kind.operations`] counts, in thousands of millions a second), `kept_bytes` and `peak_bytes`, each a list;
        `fits` of `forward`, `training` and `kept`: a [`Fit`], or None where there are too few points. Those of times
        are over [`useful_range`].
    """
    values = [getattr(size, letter) for size in sizes]
    operations = [kind.operations(size) for size in sizes]
    measured = {
        "forward": ([cost.forward for cost in costs], operations),
        "training": ([cost.training for cost in costs], operations),
        "kept": ([float(cost.kept) for cost in costs], [kind.activations(size) for size in sizes]),
    }
    fits = {}
    for name, (own, counted) in measured.items():
        chosen = slice(None)
        if name != "kept":
            chosen = useful_range([count / seconds for count, seconds in zip(counted, own, strict=True)])
        found = fit(values, own, counted, chosen)
        fits[name] = found and asdict(found)
    return {
        "sizes": values,
        "forward_seconds": [cost.forward for cost in costs],
        "training_seconds": [cost.training for cost in costs],
        "gflops": [batch_size * count / cost.forward / 1e9 for count, cost in zip(operations, costs, strict=True)],
        "kept_bytes": [cost.kept for cost in costs],
        "peak_bytes": [cost.peak for cost in costs],
        "fits": fits,
    }
