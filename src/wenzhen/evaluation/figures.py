"""A comparison as figures: quality with its intervals, and quality against time; and a classifier's confusions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wenzhen.evaluation.comparison import CONFIDENCE
from wenzhen.evaluation.table import MEASURES

QUALITY, SPEED = "quality", "speed"


def draw_figures(systems: Mapping[str, Mapping[str, Any]], models: Sequence[str], folder: Path) -> dict[str, str]:
    """Draw a comparison.

    Args:
        systems: metrics by the system's name, with `intervals`.
        models: the names of those that are no floors.
        folder: for the figures, as PNG and SVG; it is made where it is missing.

    Returns:
        The PNG files' names, and what each one shows.
    """
    folder.mkdir(exist_ok=True)
    figures = {}
    if any(metrics.get(measure) is not None for metrics in systems.values() for measure in MEASURES):
        draw_quality(systems, models, folder)
        figures[f"{QUALITY}.png"] = f"Quality by each measure, with {CONFIDENCE} intervals; grey needs no model"
    if draw_speed({name: systems[name] for name in models}, folder):
        figures[f"{SPEED}.png"] = "Quality against the time that an answer takes"
    return figures


def draw_quality(systems: Mapping[str, Mapping[str, Any]], models: Sequence[str], folder: Path) -> None:
    """Draw every system's value and interval by each measure; models in colour, floors in grey.

    Args:
        systems: metrics by the system's name, with `intervals`.
        models: the names of those that are no floors.
        folder: for `quality.svg` and `quality.png`.
    """
    from matplotlib.figure import Figure

    from wenzhen.explain.drawing import COLOURS, GREY, save, style

    measures = [name for name in MEASURES if any(metrics.get(name) is not None for metrics in systems.values())]
    with style():
        figure = Figure(figsize=(3 + 2.2 * len(measures), 1.4 + 0.3 * len(systems)), layout="constrained")
        grid = figure.subplots(1, len(measures), squeeze=False, sharey=True)
        for axes, measure in zip(grid.flat, measures, strict=True):
            for place, (name, metrics) in enumerate(reversed(list(systems.items()))):
                value = metrics.get(measure)
                if value is None:
                    continue
                low, high = metrics["intervals"].get(measure, (value, value))
                colour = COLOURS[0] if name in models else GREY
                axes.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=3)
            axes.set_yticks(range(len(systems)), list(systems)[::-1], parse_math=False)
            axes.set_title(measure)
            axes.grid(axis="x", alpha=0.3)
        save(figure, folder, QUALITY)


def draw_speed(models: Mapping[str, Mapping[str, Any]], folder: Path) -> bool:
    """Draw every model's quality against the time that its answers take.

    Args:
        models: metrics by the model's name, with `intervals` and `answers_per_second`.
        folder: for `speed.svg` and `speed.png`.

    Returns:
        Whether there was anything to draw.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    from wenzhen.explain.drawing import COLOURS, save, style

    timed = {name: metrics for name, metrics in models.items() if metrics.get("answers_per_second")}
    measures = [
        name for name in ("rougeL_word", "fact_recall") if all(m.get(name) is not None for m in timed.values())
    ]
    if not timed or not measures:
        return False
    with style():
        figure = Figure(figsize=(6.5 * len(measures), 4.8), layout="constrained")
        for axes, measure in zip(figure.subplots(1, len(measures), squeeze=False).flat, measures, strict=True):
            for place, (name, metrics) in enumerate(timed.items()):
                value, time = metrics[measure], 1000 / metrics["answers_per_second"]
                low, high = metrics["intervals"].get(measure, (value, value))
                axes.errorbar(
                    time,
                    value,
                    yerr=[[value - low], [high - value]],
                    fmt="o^sDv"[place // len(COLOURS) % 5],
                    color=COLOURS[place % len(COLOURS)],
                    capsize=3,
                    label=name,
                )
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("milliseconds for an answer, in batches")
            axes.set_ylabel(measure)
            axes.grid(alpha=0.3)
        for text in figure.axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9).get_texts():
            # A dollar sign in a name is one, not the start of a formula.
            text.set_parse_math(False)
        save(figure, folder, SPEED)
    return True


def draw_confusion(confusion: Sequence[Sequence[int]], names: Sequence[str], file: Path) -> None:
    """Draw a confusion matrix: the numbers of questions, over the shares of each real department.

    Args:
        confusion: a row for each real department, a column for each that was guessed, `[departments, departments]`.
        names: of the departments.
        file: a picture, in a folder that is made where it is missing.
    """
    import numpy as np
    from matplotlib.figure import Figure

    from wenzhen.explain.drawing import RESOLUTION, heat_map, style
    from wenzhen.explain.fonts import drawable

    counts = np.asarray(confusion)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    inches = 0.75
    with style():
        figure = Figure(figsize=(inches * len(names) + 2.2, inches * len(names) + 1), layout="constrained")
        axes = figure.add_subplot()
        image = heat_map(axes, shares, cmap="Blues", vmin=0, vmax=1)
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=10)
        labels = [drawable(name) for name in names]
        axes.set_xticks(range(len(names)), labels, parse_math=False, rotation=0 if max(map(len, names)) <= 4 else 45)
        axes.set_yticks(range(len(names)), labels, parse_math=False)
        axes.tick_params(length=0)
        axes.set_ylabel("real department  实际科室")
        axes.set_xlabel("guessed  预测科室")
        figure.colorbar(image, ax=axes, label="share of the real department's questions")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=RESOLUTION)
