"""`wenzhen export`."""

import argparse
from pathlib import Path

from wenzhen.cli.arguments import Verbs
from wenzhen.models import EXPORTED_WEIGHTS

QUANTIZATIONS = ("int8", "float32", "float16")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser("export", help="write a Transformer for CTranslate2, which answers faster")
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    parser.add_argument(
        "--to", default="ctranslate2", choices=["ctranslate2"], help="what to write it for (default: %(default)s)"
    )
    parser.add_argument(
        "--quantization", default="int8", choices=QUANTIZATIONS, help="type of the weights (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, help="folder to make (default: MODEL-ct2-QUANTIZATION)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export in the output folder")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export, and say where the result lies."""
    from wenzhen.answering.export import export_model

    # `.` and `..` have no name of their own.
    model = arguments.model if arguments.model.name.strip(".") else arguments.model.resolve()
    output = arguments.output or model.with_name(f"{model.name}-ct2-{arguments.quantization}")
    difference = export_model(model, output, arguments.quantization, arguments.overwrite)
    megabytes = (output / EXPORTED_WEIGHTS).stat().st_size / 1e6
    print(
        f"export: {output}  ({EXPORTED_WEIGHTS} of {megabytes:.1f} MB; log-probabilities within {difference:.1g} of "
        "the original's)"
    )
    return 0
