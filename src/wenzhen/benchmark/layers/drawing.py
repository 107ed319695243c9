"""Table 4.2 as figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wenzhen.explain.drawing import COLOURS, powers_of_two

FAMILIES = dict(zip(("attention", "recurrent", "convolutional"), COLOURS, strict=False))
# Of the layers of a family, in turn.
MARKERS, LINES = "os^", ("-", "--", ":")
TIMES = {"forward": "forward  前向", "training": "forward and backward  前向与反向"}
LETTERS = {"n": "length of the sequence n  序列长度", "d": "width of the layer d  层宽"}
MEMORY = {"kept": "kept for the backward pass  为反向保留", "peak": "peak of both passes  两次计算的峰值"}
PATHS = {
    "layers": "layers from the first input to the last output\n从首个输入到末个输出所需层数",
    "path": "operations in sequence on that way\n路径上依次执行的运算数",
}


def draw(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw what [`wenzhen.benchmark.layers.measure.benchmark_layers`] returns; figures by their names."""
    figures = {f"time-{letter}": draw_times(result, letter) for letter in LETTERS}
    return {**figures, "memory": draw_memory(result), "reach": draw_paths(result)}


def draw_times(result: Mapping[str, Any], letter: str) -> Figure:
    """Draw the times against one letter of the sizes; faint where a size is left out of the fit."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 2, sharey=True), TIMES.items(), strict=True):
        for layer, look in looks(result["layers"]):
            costs = layer["against"][letter]
            sizes, fit = costs["sizes"], costs["fits"][name]
            milliseconds = [1e3 * seconds for seconds in costs[f"{name}_seconds"]]
            unfit = None if fit else f"{layer['title']}: too few sizes"
            axes.plot(sizes, milliseconds, **look, alpha=0.3, label=unfit)
            if fit:
                chosen = slice(sizes.index(fit["first"]), sizes.index(fit["last"]) + 1)
                label = f"{layer['title']}: ${letter}^{{{fit['exponent']:.2f}}}$"
                axes.plot(sizes[chosen], milliseconds[chosen], **look, label=label)
        axes.set_title(title)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=9, handlelength=3.5)
        scale(axes, letter)
    figure.axes[0].set_ylabel(f"milliseconds, {result['settings']['batch_size']} sequences  毫秒")
    return figure


def draw_memory(result: Mapping[str, Any]) -> Figure:
    """Draw what is kept for the backward pass, and the peak, against length and width."""
    figure = Figure(figsize=(12, 9), layout="constrained")
    for row, (name, title) in zip(figure.subplots(2, 2, sharey=True), MEMORY.items(), strict=True):
        for axes, letter in zip(row, LETTERS, strict=True):
            for layer, look in looks(result["layers"]):
                costs = layer["against"][letter]
                megabytes = [size / 2**20 for size in costs[f"{name}_bytes"]]
                axes.plot(costs["sizes"], megabytes, **look, label=layer["title"])
            axes.set_title(title)
            scale(axes, letter)
        row[0].set_ylabel(f"MB, {result['settings']['batch_size']} sequences")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def draw_paths(result: Mapping[str, Any]) -> Figure:
    """Draw layers and operations in sequence on the way from the first input to the last output."""
    figure = Figure(figsize=(12, 5.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 2), PATHS.items(), strict=True):
        for network, look in looks(result["paths"]):
            axes.plot(network["lengths"], network[name], **look, label=network["title"])
        axes.set_title(title)
        scale(axes, "n")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def looks(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield layers or networks, and how to draw each: a colour for a family, a marker and a line for each of it."""
    seen: Sequence[str] = []
    for entry in entries.values():
        number = seen.count(entry["family"])
        seen = [*seen, entry["family"]]
        yield (
            entry,
            {
                "color": FAMILIES[entry["family"]],
                "marker": MARKERS[number],
                "linestyle": LINES[number],
                "markersize": 5,
            },
        )


def scale(axes: Axes, letter: str) -> None:
    """Make both axes logarithmic, so that a power is a line."""
    powers_of_two(axes)
    axes.set_yscale("log")
    axes.set_xlabel(LETTERS[letter])
    axes.grid(alpha=0.25)
