"""`wenzhen compare`."""

import argparse
import json
from pathlib import Path

from wenzhen.answering.decoding import DECODINGS
from wenzhen.cli.arguments import Verbs, add_json, add_questions, check_counts, decoding_name
from wenzhen.cli.losses import LOSSES, compare_losses, read_run
from wenzhen.errors import UsageError
from wenzhen.folders import as_text, name_of


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "compare",
        help="measure models side by side, and write a report",
        description="Ask models the same questions, beside answers that need no model, and write a report: quality "
        "with intervals, speed, memory, losses, sample answers.",
        epilog="Stopped or killed, the same command goes on with the answers that there are. A model that has "
        "answered is not asked again.",
    )
    parser.add_argument("models", metavar="MODEL", nargs="+", type=Path, help="model folders, or exports of them")
    add_questions(parser)
    parser.add_argument(
        "--decoding",
        metavar="NAME",
        nargs="+",
        default=[],
        type=decoding_name,
        help=f"have every model answer in each of these ways: {', '.join(DECODINGS)}, or one with settings of its own "
        "(default: each model's own way)",
    )
    parser.add_argument("--no-floors", action="store_true", help="leave out the answers that need no model")
    parser.add_argument("--losses", action="store_true", help="ask nothing: lay the runs' losses over each other")
    parser.add_argument(
        "--output", type=Path, help="folder for the report (default: outputs/compare; outputs/losses with --losses)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier result in the output folder")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and say where the report lies."""
    check_counts(arguments, "limit", "batch-size")
    models = named(arguments.models)
    if arguments.losses:
        return compare_losses(models, arguments.output or Path("outputs/losses"), arguments.overwrite, arguments.json)

    from wenzhen.benchmark.machine import describe_machine, package_versions
    from wenzhen.evaluation.contest import compare_models, contenders_of
    from wenzhen.evaluation.contest_folder import FIGURES, REPORT_PAGE
    from wenzhen.evaluation.figures import draw_figures
    from wenzhen.evaluation.report import write_report
    from wenzhen.evaluation.table import comparison_table
    from wenzhen.training.figure import draw_losses

    output = arguments.output or Path("outputs/compare")
    machine = describe_machine()
    versions = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    result, scores = compare_models(
        contenders_of(models, arguments.decoding),
        output,
        dataset=arguments.dataset,
        split=arguments.split or "test",
        department=arguments.department,
        limit=arguments.limit,
        batch_size=arguments.batch_size,
        floors=not arguments.no_floors,
        machine=f"{machine['accelerator'] or machine['cpu']}, {machine['cores']} cores, {versions}",
        overwrite=arguments.overwrite,
    )
    figures = draw_figures(result["systems"], result["models"], output / FIGURES)
    runs = {name: entries for name, folder in models.items() if (entries := read_run(folder))}
    if runs:
        draw_losses(runs, output / FIGURES / LOSSES)
        figures[LOSSES] = "Training and validation losses of the runs, against epochs"
    write_report(output, result, scores, figures)
    if arguments.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(comparison_table(result))
        print(f"report: {output / REPORT_PAGE}")
    return 0


def named(folders: list[Path]) -> dict[str, Path]:
    """Return the folders by their names, or by their paths where two have the same name."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("a model is named twice; name each once")
    names = [name_of(folder) for folder in folders]
    named: dict[str, Path] = {}
    for name, folder in zip(names, folders, strict=True):
        unique = name if names.count(name) == 1 else as_text(folder)
        # Names that are no UTF-8 may look the same.
        while unique in named:
            unique = f"{unique}'"
        named[unique] = folder
    return named
