"""The `wenzhen` command: one verb for each thing that is done with a recipe or a model.

Each verb has a module here with its arguments (`add_parser`) and what it does (`run`). Heavy libraries are imported by
`run`, so that `--help` and wrong arguments answer at once.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata

from wenzhen.cli import (
    answer,
    benchmark,
    compare,
    evaluate,
    explain,
    export,
    index,
    info,
    push,
    push_space,
    safety,
    serve,
    train,
)
from wenzhen.errors import run

VERBS = (train, evaluate, compare, index, answer, serve, safety, explain, export, push, push_space, benchmark, info)


def build_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command, and that of every verb by its name."""
    parser = argparse.ArgumentParser(
        prog="wenzhen", description="Train, measure, share and use a Chinese medical question-answering model."
    )
    parser.add_argument("--version", action="version", version=f"wenzhen {metadata.version('wenzhen')}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_parser(verbs)
    return parser, verbs.choices


def main(argv: Sequence[str]) -> int:
    """Run one verb; see [`wenzhen.errors.run`] for exit codes."""
    if not sys.stderr.isatty():
        # The libraries' progress bars fill a log file; each reads the variable when it is imported.
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    parser, verbs = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest:
        try:
            # argparse takes no more words without a dash once an option has come between, unless told to.
            arguments = verbs[arguments.verb].parse_intermixed_args(argv[argv.index(arguments.verb) + 1 :])
        except TypeError:
            # A verb with verbs of its own cannot be told.
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return int(arguments.run(arguments))


def entry_point() -> int:
    """Run the command line of this process."""
    return run(main, sys.argv[1:])
