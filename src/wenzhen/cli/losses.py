"""The losses of training runs over each other: `wenzhen compare --losses`, and a figure of every comparison."""

import json
import math
from pathlib import Path
from typing import Any

from wenzhen.errors import UsageError

# What the output folder holds.
LOSSES = "losses.png"
# Column of the table -> how a value is written there; of the measurement with the lowest validation loss.
COLUMNS = {
    "step": "{:,}",
    "epoch": "{:.2f}",
    "eval_loss": "{:.4f}",
    "eval_perplexity": "{:.2f}",
    "eval_padded_loss": "{:.4f}",
}


def compare_losses(models: dict[str, Path], output: Path, overwrite: bool, as_json: bool) -> int:
    """Read the logs, draw them, and say what is best in each and where the figure lies.

    Args:
        models: folders of runs, finished or in training, by their names.
        output: folder for the figure.
        overwrite: whether an earlier figure there may go.
        as_json: print for a program to read.
    """
    from wenzhen.folders import published_folder
    from wenzhen.training.figure import draw_losses

    runs = {name: read_run(folder) for name, folder in models.items()}
    missing = [str(models[name]) for name, entries in runs.items() if not entries]
    if missing:
        raise UsageError(
            f"{missing[0]} holds no training_log.jsonl with losses; name a folder that wenzhen train made"
        )
    with published_folder(output, (LOSSES,), overwrite) as folder:
        draw_losses(runs, folder / LOSSES)
    best = {name: best_measurement(entries) for name, entries in runs.items()}
    file = output / LOSSES
    if as_json:
        print(json.dumps({"figure": str(file), "best": best}, ensure_ascii=False))
    else:
        print(f"{table(best)}\nfigure: {file}")
    return 0


def read_run(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a run's log, none where there is no log.

    Raises:
        UsageError: the log is damaged.
    """
    from wenzhen.hub.records import read_steps

    return read_steps(folder)


def best_measurement(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry with the lowest validation loss, an empty one where none was measured."""
    measured = [entry for entry in entries if math.isfinite(entry.get("eval_loss", math.nan))]
    return min(measured, key=lambda entry: float(entry["eval_loss"]), default={})


def table(best: dict[str, dict[str, Any]]) -> str:
    """Render each run's best measurement for a terminal."""
    width = max(map(len, best)) + 2
    lines = [" " * width + "".join(f"{column.removeprefix('eval_'):>13}" for column in COLUMNS)]
    for name, entry in best.items():
        cells = (form.format(entry[column]) if column in entry else "-" for column, form in COLUMNS.items())
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>13}" for cell in cells))
    return "\n".join(lines)
