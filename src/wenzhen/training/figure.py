"""The losses of training runs as a figure (the thesis' figure 4.1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Panel -> key in the log, style and name of each of its curves. A classifier's loss is that of a question.
PANELS = {
    "loss (nats per {unit})": (("loss", "-", "training"), ("eval_loss", "o--", "validation")),
    "loss (mean with padding, as the thesis counts)": (("eval_padded_loss", "o--", "validation"),),
    "accuracy": (("eval_accuracy", "o--", "validation"),),
}


def draw_losses(runs: Mapping[str, Sequence[Mapping[str, Any]]], file: Path) -> None:
    """Draw the losses of one or several runs over each other.

    The left panel has training and validation loss; the right one the validation loss as the thesis counts it, or a
    classifier's accuracy, where it was measured. Both are against epochs: of runs that learn from the same pairs,
    those of different batch sizes have seen as many of them at the same place.

    Args:
        runs: the entries of each run's log by its name; see [`wenzhen.training.log.read_log`].
        file: a picture, in a folder that is made where it is missing.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from wenzhen.explain.fonts import families

    keys = {key for entries in runs.values() for entry in entries for key in entry}
    panels = {title: curves for title, curves in PANELS.items() if keys & {key for key, _, _ in curves}}
    with matplotlib.rc_context({"font.family": families()}):
        figure = Figure(figsize=(6.5 * max(len(panels), 1), 5), layout="constrained")
        for place, (title, curves) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(1, len(panels), place)
            # Training and validation of a run share a color where other runs stand beside them.
            colors = [f"C{number}" if len(runs) > 1 else None for number in range(len(runs))]
            for (name, entries), color in zip(runs.items(), colors, strict=True):
                for key, style, what in curves:
                    label = f"{what}, {name}" if len(runs) > 1 else what
                    if points := [(entry["epoch"], entry[key]) for entry in entries if key in entry]:
                        axes.plot(*zip(*points, strict=True), style, color=color, label=label, markersize=4, lw=1.2)
            axes.set_xlim(left=0)
            axes.set_xlabel("epochs")
            axes.set_ylabel(title.format(unit="question" if "eval_accuracy" in keys else "real token"))
            axes.grid(alpha=0.3)
            for text in axes.legend().get_texts():
                # A dollar sign in a name is one, not the start of a formula.
                text.set_parse_math(False)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
