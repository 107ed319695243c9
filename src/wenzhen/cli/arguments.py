"""Arguments that several verbs share."""

import argparse
from typing import Any

from wenzhen.answering.decoding import DECODINGS

# What `ArgumentParser.add_subparsers` returns; argparse gives the type no public name.
Verbs = Any


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the choice of decoding to a verb."""
    parser.add_argument("--decoding", choices=DECODINGS, help="how to write the answer (default: the model's own way)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the choice of output for programs to a verb."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")
