"""`wenzhen push-space`."""

import argparse
import shlex
from pathlib import Path

from wenzhen.cli.arguments import Verbs
from wenzhen.errors import UsageError


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "push-space",
        help="publish a model's demo as a Space of the Hugging Face Hub, or write it into a folder",
        description="Publish the demo of a model as a Gradio Space of the Hugging Face Hub: the page, the package's "
        "source, the libraries' versions and the model. Log in first (hf auth login, or HF_TOKEN).",
        epilog="Never published: predictions.jsonl, which holds real questions, the training log, checkpoints, paths "
        "of this machine; nor, without --with-evidence, the consultations that `wenzhen index` put into the model's "
        "folder. What an earlier push left there is replaced, in one commit.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a model folder or an export, which go along; or OWNER/NAME[@REVISION] of a model on the Hub, which the "
        "Space fetches when it starts",
    )
    parser.add_argument("repository", metavar="OWNER/NAME", help="the Space; made where there is none")
    parser.add_argument(
        "--dry-run", metavar="FOLDER", type=Path, help="publish nothing; write into this folder what would be"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier Space in the --dry-run folder")
    parser.add_argument(
        "--private", action="store_true", help="make it a private one; refused where it is public already"
    )
    parser.add_argument(
        "--with-evidence",
        action="store_true",
        help="publish the consultations that the model's folder has indexed, which the page then shows",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Publish, or write, and say where and what to know."""
    from wenzhen.hub.space import push_space, write_space

    if arguments.overwrite and not arguments.dry_run:
        raise UsageError("--overwrite replaces a folder; give --dry-run FOLDER, or leave it out")
    what = arguments.model, arguments.repository
    if arguments.dry_run:
        notes = write_space(*what, arguments.dry_run, arguments.with_evidence, arguments.overwrite)
        print(f"written: {arguments.dry_run}", *notes, sep="\n")
        print(
            f"start it: cd {shlex.quote(str(arguments.dry_run))} && pip install -r requirements.txt && python app.py"
        )
    else:
        url, notes = push_space(*what, arguments.private, arguments.with_evidence)
        print(f"pushed: {url}", *notes, sep="\n")
    return 0
