"""Figures of appendix A."""

import math

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wenzhen.explain.drawing import COLOURS, GREY, powers_of_two
from wenzhen.explain.saturation import HEAD_DIMS, KINDS, Saturation

# Below it float32 probabilities hold no more.
FLOOR = 1e-7
TITLES = {
    "encoder": "encoder self-attention\n编码器自注意力",
    "decoder": "decoder self-attention\n解码器自注意力",
    "cross": "cross-attention\n交叉注意力",
}
ROWS = {
    "largest_probability": "largest probability, median\n最大概率（中位数）",
    "passed": "share of gradient passed, median\n穿过 softmax 的梯度（中位数）",
    "query_gradient": "gradient at query weights\n查询权重的梯度范数",
}


def draw(saturation: Saturation) -> dict[str, Figure]:
    """Draw softmax and Jacobian against the scale, and what becomes of the gradient in a model."""
    return {"saturation": draw_softmax(saturation), "saturation-model": draw_model(saturation)}


def draw_softmax(saturation: Saturation) -> Figure:
    """Draw the largest probability and the Jacobian's norm against the scale, for several head sizes."""
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    styles = {"scaled_dot": ("-", r"$q^\mathsf{T}k/\sqrt{d}$"), "dot": ("--", r"$q^\mathsf{T}k$")}
    curves = {score: saturation.of_score(score) for score in styles}
    # The legend goes down its columns: one for each head size.
    for *pair, colour in zip(*curves.values(), COLOURS, strict=False):
        for curve in pair:
            line, name = styles[curve.attention_score]
            label = f"{name}, d = {curve.head_dim}"
            left.plot(saturation.scales, curve.largest_probability, line, color=colour, label=label)
            right.plot(saturation.scales, curve.jacobian_norm, line, color=colour)
    left.set_ylabel("largest probability  最大概率")
    left.set_ylim(0, 1.03)
    right.set_ylabel(r"$\|\partial p/\partial x\|$, the Jacobian's norm  雅可比矩阵的范数")
    right.set_yscale("log")
    right.set_ylim(FLOOR, 1)
    for axes in (left, right):
        powers_of_two(axes)
        axes.set_xlabel("factor k on the scores  打分的倍数")
        axes.axvline(1, color=GREY, linewidth=1, zorder=0)
        axes.grid(alpha=0.25)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(HEAD_DIMS))
    return figure


def draw_model(saturation: Saturation) -> Figure:
    """Draw the median largest probability, the share of the gradient that passes and the gradient at the weights."""
    figure = Figure(figsize=(11, 9.5), layout="constrained")
    grid = figure.subplots(len(ROWS), len(KINDS), sharex=True, sharey="row")
    for column, kind in enumerate(KINDS):
        curves = [curve for curve in saturation.gradients if curve.attention == kind]
        for row, (name, ylabel) in enumerate(ROWS.items()):
            axes = grid[row, column]
            for curve in curves:
                place = (curve.layer - 1) / max(len(curves) - 1, 1)
                colour = colormaps["viridis"](0.9 * place)
                axes.plot(saturation.model_scales, getattr(curve, name), color=colour, label=f"layer {curve.layer}")
            mark_scores(axes, saturation.head_dim)
            if column == 0:
                axes.set_ylabel(ylabel)
            if row > 0:
                axes.set_yscale("log")
        grid[0, column].set_title(TITLES[kind], pad=24)
        powers_of_two(grid[-1, column])
        grid[-1, column].set_xlabel(r"factor on $q^\mathsf{T}k/\sqrt{d}$  打分的倍数")
        label_scores(grid[0, column], saturation.head_dim)
    grid[0, 0].set_ylim(0, 1.03)
    grid[1, 0].set_ylim(bottom=max(FLOOR, grid[1, 0].get_ylim()[0]))
    longest = max(grid[0], key=lambda axes: len(axes.get_legend_handles_labels()[1]))
    handles, labels = longest.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 8))
    return figure


def mark_scores(axes: Axes, head_dim: int) -> None:
    """Mark where the scores are with and without the √d."""
    axes.axvline(1, color=GREY, linewidth=1, zorder=0)
    axes.axvline(math.sqrt(head_dim), color=GREY, linewidth=1, linestyle="--", zorder=0)
    axes.grid(alpha=0.25)


def label_scores(axes: Axes, head_dim: int) -> None:
    """Name the two marks above the topmost panel."""
    for place, name in ((1, r"with $\sqrt{d}$"), (math.sqrt(head_dim), r"without")):
        axes.annotate(
            name, (place, 1), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="bottom", fontsize=9, color=GREY,
        )  # fmt: skip
