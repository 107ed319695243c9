"""What all figures share: their look, heat maps with tokens along the axes, and the files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from wenzhen.explain.fonts import drawable, families

# Points an em.
LARGEST_LABEL = 11.0
POINTS_PER_INCH = 72
# Of the PNG files, in pixels an inch, and the longest edge that they may have.
RESOLUTION, LONGEST_EDGE = 150, 8000
# From Okabe and Ito's palette, told apart by readers of every colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "#555555"


@contextmanager
def style() -> Iterator[None]:
    """Draw and save with the figures' fonts and sizes, and leave matplotlib's settings as they were."""
    settings: Any = {
        "font.family": families(),
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.grid": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": True,
        "legend.frameon": False,
        "savefig.bbox": "tight",
        "savefig.pad_inches": 0.1,
        "lines.linewidth": 1.8,
        # Outlines instead of text, so that a reader needs no font; and the same file for the same numbers.
        "svg.fonttype": "path",
        "svg.hashsalt": "wenzhen",
    }
    with matplotlib.rc_context(settings):
        yield


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as `NAME.svg` and `NAME.png`."""
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=min(RESOLUTION, LONGEST_EDGE / max(figure.get_size_inches())))


def label_tokens(axis: Axis, labels: Sequence[str], inches: float) -> None:
    """Write a token at each place of a heat map's axis, as large as `inches` a token allow."""
    size = min(inches * POINTS_PER_INCH * 0.85, LARGEST_LABEL)
    axis.set_ticks(range(len(labels)))
    # A dollar sign is one, not the start of a formula.
    axis.set_ticklabels([drawable(label) for label in labels], fontsize=size, parse_math=False)
    axis.set_tick_params(length=0, pad=2)
    if isinstance(axis, XAxis):
        for text in axis.get_ticklabels():
            if len(text.get_text()) > 1:
                text.set_rotation(90)


def heat_map(axes: Axes, values: np.ndarray, **how: Any) -> Any:
    """Draw `[rows, columns]`, a square a value, row 0 at the top."""
    image = axes.imshow(values, interpolation="none", **how)
    axes.spines[:].set_visible(False)
    return image


def powers_of_two(axes: Axes) -> None:
    """Count a horizontal axis in powers of two: 1/2, 1, 2, …"""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}"))
