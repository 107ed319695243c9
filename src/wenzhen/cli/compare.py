"""`wenzhen compare`."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from wenzhen.cli.arguments import Verbs, add_json
from wenzhen.errors import UsageError

# What the output folder holds.
FIGURE = "losses.png"
# Column of the table -> how a value is written there; of the measurement with the lowest validation loss.
COLUMNS = {
    "step": "{:,}",
    "epoch": "{:.2f}",
    "eval_loss": "{:.4f}",
    "eval_perplexity": "{:.2f}",
    "eval_padded_loss": "{:.4f}",
}


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "compare",
        help="lay the losses of training runs over each other",
        description="Lay the losses of training runs over each other, and name each run's best measurement.",
        epilog="The figure is against epochs: at the same epoch, runs on the same dataset have seen as many pairs, "
        "whatever their batch sizes. The table has the measurement with each run's lowest validation loss.",
    )
    parser.add_argument("models", metavar="MODEL", nargs="+", type=Path, help="model folders, finished or in training")
    parser.add_argument("--output", type=Path, default=Path("outputs/compare"), help="folder for the figure")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier result in the output folder")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the logs, draw them, and say what is best in each and where the figure lies."""
    from wenzhen.folders import published_folder
    from wenzhen.training.figure import draw_losses

    runs = {name: read_run(folder) for name, folder in named(arguments.models).items()}
    with published_folder(arguments.output, (FIGURE,), arguments.overwrite) as folder:
        draw_losses(runs, folder / FIGURE)
    best = {name: best_measurement(entries) for name, entries in runs.items()}
    file = arguments.output / FIGURE
    if arguments.json:
        print(json.dumps({"figure": str(file), "best": best}, ensure_ascii=False))
    else:
        print(f"{table(best)}\nfigure: {file}")
    return 0


def named(folders: list[Path]) -> dict[str, Path]:
    """Return the folders by their names, or by their paths where two have the same name."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("a model is named twice; name each once")
    names = [folder.resolve().name for folder in folders]
    unique = [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
    return dict(zip(unique, folders, strict=True))


def read_run(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a run's log.

    Raises:
        UsageError: there is no log, or it is damaged.
    """
    from wenzhen.hub.records import read_steps

    entries = read_steps(folder)
    if not entries:
        raise UsageError(f"{folder} holds no training_log.jsonl with losses; name a folder that wenzhen train made")
    return entries


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
