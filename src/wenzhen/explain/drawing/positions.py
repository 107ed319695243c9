"""Figures of appendix B."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Rectangle

from wenzhen.explain.drawing import COLOURS, GREY, heat_map, powers_of_two
from wenzhen.explain.positions import TOLERANCE, Fit, Positions, rotation

SHOWN_DIMENSIONS = 16
SHOWN_OFFSETS = (1, 4, 16)
SHOWN_WAVES = 4
SHOWN_POSITIONS = 100


def draw(positions: Positions) -> dict[str, Figure]:
    """Draw the table, the rotation and the products of positions."""
    return {
        "positions-table": draw_table(positions),
        "positions-rotation": draw_fit(positions.fit) if positions.fit else draw_rotation(positions),
        "positions-products": draw_products(positions),
    }


def draw_table(positions: Positions) -> Figure:
    """Draw the table as a heat map, sines and cosines apart, and some of its dimensions as waves."""
    table = positions.table
    figure = Figure(figsize=(11, 8), layout="constrained")
    grid = GridSpec(2, 2, figure, height_ratios=(1.6, 1))
    parts = {"": table}
    if positions.fit is None:
        parts = {
            "even dimensions, sines  偶数维：正弦": table[:, 0::2],
            "odd dimensions, cosines  奇数维：余弦": table[:, 1::2],
        }
    limit = np.abs(table).max()
    panels = [figure.add_subplot(grid[0, n] if len(parts) > 1 else grid[0, :]) for n in range(len(parts))]
    for axes, (title, values) in zip(panels, parts.items(), strict=True):
        # Each value spans its own dimensions on the axis.
        extent = (0, table.shape[1], len(table), 0)
        image = heat_map(axes, values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", extent=extent)
        axes.set_title(title)
        axes.set_xlabel("dimension  维度")
    panels[0].set_ylabel("position  位置")
    figure.colorbar(image, ax=panels, label="value  取值")
    draw_waves(figure.add_subplot(grid[1, :]), table)
    return figure


def draw_waves(axes: Axes, table: np.ndarray) -> None:
    """Draw some dimensions against the position."""
    d_model = table.shape[1]
    # Even ones, the first half of them: beyond, the waves hardly begin.
    dimensions = [2 * (d_model * n // (4 * SHOWN_WAVES)) for n in range(SHOWN_WAVES)]
    for dimension, colour in zip(dict.fromkeys(dimensions), COLOURS, strict=False):
        axes.plot(table[:, dimension], color=colour, linewidth=1.3, label=f"dimension {dimension}")
    shown = min(len(table), SHOWN_POSITIONS)
    axes.set_xlim(0, shown - 1)
    part = f", the first {shown} of {len(table)}" if shown < len(table) else ""
    axes.set_xlabel(f"position{part}  位置" + (f"（{len(table)} 个中的前 {shown} 个）" if part else ""))
    axes.set_ylabel("value  取值")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=SHOWN_WAVES)
    axes.grid(alpha=0.25)


def draw_rotation(positions: Positions) -> Figure:
    """Draw T^(k) for some k, and the error of T^(k)·E_t for every k."""
    assert positions.rotation_errors is not None
    figure = Figure(figsize=(11, 7.2), layout="constrained")
    grid = GridSpec(2, len(SHOWN_OFFSETS), figure, height_ratios=(1.35, 1))
    d_model = positions.table.shape[1]
    shown = min(SHOWN_DIMENSIONS, d_model)
    panels = [figure.add_subplot(grid[0, column]) for column in range(len(SHOWN_OFFSETS))]
    for axes, offset in zip(panels, SHOWN_OFFSETS, strict=True):
        image = heat_map(axes, rotation(d_model, offset)[:shown, :shown], cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_title(f"$T^{{(k)}}$, k = {offset}")
        axes.set_xlabel("dimension  维度")
        axes.set_xticks(range(0, shown, 2))
        axes.set_yticks(range(0, shown, 2))
        for m in range(0, shown, 2):
            axes.add_patch(Rectangle((m - 0.5, m - 0.5), 2, 2, fill=False, edgecolor=GREY, linewidth=0.8))
    panels[0].set_ylabel("dimension  维度")
    figure.colorbar(image, ax=panels, label="value  取值", shrink=0.9)
    axes = figure.add_subplot(grid[1, :])
    # To move by none is exact, and has no place on a logarithmic axis.
    shifts = range(1, len(positions.rotation_errors))
    axes.plot(shifts, positions.rotation_errors[1:], ".", color=COLOURS[0], markersize=4)
    axes.axhline(TOLERANCE, color=COLOURS[1], linestyle="--", label="tolerance  容许误差")
    axes.set_yscale("log")
    axes.set_xlabel("shift k  位移")
    axes.set_ylabel("largest $|T^{(k)}E_t - E_{t+k}|$ over t\n最大误差（所有 t）")
    axes.legend(loc="center right")
    axes.grid(alpha=0.25)
    return figure


def draw_fit(fit: Fit) -> Figure:
    """Draw how far the best rotation stays off, beside what it is for sinusoids."""
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(fit.offsets, fit.residuals, "o-", color=COLOURS[1], label="this table, learned  本模型（学习得到）")
    axes.plot(fit.offsets, fit.sinusoidal_residuals, "s-", color=COLOURS[0], label="sinusoids  正弦位置")
    powers_of_two(axes)
    axes.set_yscale("log")
    axes.set_xlabel("shift k  位移")
    axes.set_ylabel(r"$\|T E_t - E_{t+k}\|\;/\;\|E_{t+k}\|$, best $T$" "\n最佳旋转的相对误差")
    axes.legend(loc="center right")
    axes.grid(alpha=0.25)
    return figure


def draw_products(positions: Positions) -> Figure:
    """Draw the product of two positions against their distance: mean and range over where they stand."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.add_subplot()
    least, mean, largest = positions.products
    label = "least to largest over t  随 t 的范围"
    axes.fill_between(range(len(mean)), least, largest, color=COLOURS[1], alpha=0.35, linewidth=0, label=label)
    axes.plot(mean, color=COLOURS[0], linewidth=1.4, label="mean over t  平均")
    axes.set_xlabel("distance k  距离")
    axes.set_ylabel(r"$E_t \cdot E_{t+k}$  内积")
    axes.legend()
    axes.grid(alpha=0.25)
    return figure
