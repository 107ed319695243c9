"""Arguments that several verbs share."""

import argparse
from pathlib import Path
from typing import Any

from wenzhen.answering.decoding import DECODINGS, EXAMPLE, decoding_named
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError

# What `ArgumentParser.add_subparsers` returns; argparse gives the type no public name.
Verbs = Any


def add_questions(parser: argparse.ArgumentParser) -> None:
    """Add the choice of questions to a verb."""
    parser.add_argument("--split", choices=SPLITS, help="part of the dataset (default: test)")
    parser.add_argument("--dataset", type=Path, help="dataset folder (default: the one in the model's recipe)")
    parser.add_argument("--department", help="ask the questions of this department alone")
    parser.add_argument("--limit", type=int, help="ask so many questions, drawn with a fixed seed")
    parser.add_argument("--batch-size", type=int, default=64, help="questions at a time (default: %(default)s)")


def check_counts(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse a number, or one of several, below 1."""
    for name in names:
        value = getattr(arguments, name.replace("-", "_"))
        lowest = min(value) if isinstance(value, list) else value
        if lowest is not None and lowest < 1:
            raise UsageError(f"--{name} must be at least 1, got {lowest}")


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the choice of decoding to a verb."""
    parser.add_argument(
        "--decoding",
        metavar="NAME",
        type=decoding_name,
        help=f"how to write the answer: {', '.join(DECODINGS)}, or one with settings of its own, as {EXAMPLE} "
        "(default: the model's own way)",
    )


def decoding_name(name: str) -> str:
    """Return the name of a way to decode, checked."""
    try:
        decoding_named(name)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return name


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the choice of output for programs to a verb."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")
