"""Pictures of attention: a grid of layers and heads for each kind, and the alignment of answer and question."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from wenzhen.explain.attention import AttentionMaps
from wenzhen.explain.drawing import heat_map, label_tokens

COLOURS = "viridis"
# Inches a token, and the bounds of a panel's longer edge. The labels of a hundred tokens have three points and a half:
# they can be read where the page shows the figure at twice its size.
GRID_TOKEN, GRID_SMALLEST, GRID_LARGEST = 0.1, 1.5, 6.0
ALIGNMENT_TOKEN, ALIGNMENT_LARGEST = 0.26, 16.0
COLOUR_BAR = 3.0
NAMES = {
    "encoder": "encoder self-attention  编码器自注意力",
    "decoder": "decoder self-attention  解码器自注意力",
    "cross": "cross-attention  交叉注意力",
}


def draw(maps: AttentionMaps) -> dict[str, Figure]:
    """Draw the alignment, then every head of every layer of the kinds that there are."""
    axes = {
        "encoder": (maps.source, maps.source),
        "decoder": (maps.inputs, maps.inputs),
        "cross": (maps.outputs, maps.source),
    }
    weights = {kind: getattr(maps, kind) for kind in NAMES}
    grids = {
        f"attention-{kind}": draw_grid(values, *axes[kind], NAMES[kind])
        for kind, values in weights.items()
        if values is not None
    }
    return {"attention-alignment": draw_alignment(maps), **grids}


def draw_grid(weights: np.ndarray, queries: Sequence[str], keys: Sequence[str], name: str) -> Figure:
    """Draw `[layers, heads, target_length, source_length]`: a layer a row of panels, the lowest on top."""
    layers, heads = weights.shape[:2]
    longest = max(len(queries), len(keys))
    inches = min(max(GRID_TOKEN * longest, GRID_SMALLEST), GRID_LARGEST) / longest
    width, height = (max(inches * len(tokens), 0.5) for tokens in (keys, queries))
    figure = Figure(figsize=(heads * (width + 0.15) + 1.6, layers * (height + 0.15) + 1.4), layout="compressed")
    grid = figure.subplots(layers, heads, squeeze=False)
    norm = PowerNorm(0.5, vmin=0, vmax=1)
    for (layer, head), axes in np.ndenumerate(grid):
        image = heat_map(axes, weights[layer, head], cmap=COLOURS, norm=norm)
        # The labels of a row stand at its left end, those of a column below it.
        label_tokens(axes.yaxis, queries if head == 0 else [], inches)
        label_tokens(axes.xaxis, keys if layer == layers - 1 else [], inches)
        if head == 0:
            axes.set_ylabel(f"layer {layer + 1}  第{layer + 1}层")
        if layer == 0:
            axes.set_title(f"head {head + 1}", fontsize=10)
    figure.suptitle(name, fontsize=12)
    shrink = min(1, COLOUR_BAR / (layers * height))
    figure.colorbar(image, ax=grid, label="weight  权重", ticks=[0, 0.05, 0.2, 0.5, 1], shrink=shrink)
    return figure


def draw_alignment(maps: AttentionMaps) -> Figure:
    """Draw the cross-attention's mean over layers and heads, a written token a column."""
    weights = maps.alignment.T
    inches = min(ALIGNMENT_TOKEN, ALIGNMENT_LARGEST / max(weights.shape))
    width, height = inches * weights.shape[1], inches * weights.shape[0]
    figure = Figure(figsize=(width + 2.4, height + 1.4), layout="compressed")
    axes = figure.add_subplot()
    image = heat_map(axes, weights, cmap=COLOURS, vmin=0)
    label_tokens(axes.yaxis, maps.source, inches)
    label_tokens(axes.xaxis, maps.outputs, inches)
    axes.set_ylabel("question  问题")
    axes.set_xlabel("answer, as it is written  逐字写出的回答")
    figure.colorbar(image, ax=axes, label="mean weight  平均权重", shrink=min(1, COLOUR_BAR / height))
    return figure
