"""`wenzhen push`."""

import argparse
from pathlib import Path

from wenzhen.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "push",
        help="publish a model on the Hugging Face Hub",
        description="Publish a model folder as a model repository of the Hugging Face Hub: weights, tokenizer, code, "
        "recipe, metrics, training log, figure and a card made from them. Log in first (hf auth login, or HF_TOKEN).",
        epilog="Never published: predictions.jsonl, which holds real questions, the dataset's report, checkpoints, "
        "paths of this machine. What an earlier push left there is replaced, in one commit. Datasets are pushed by "
        "data_scripts/build_dataset.py --push.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    parser.add_argument("repository", metavar="OWNER/NAME", help="the repository; made where there is none")
    parser.add_argument(
        "--private", action="store_true", help="make it a private one; refused where it is public already"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Publish and say where."""
    from wenzhen.hub.model import push_model

    print(f"pushed: {push_model(arguments.model, arguments.repository, arguments.private)}")
    return 0
