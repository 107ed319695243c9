"""`wenzhen index`."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from wenzhen.cli.arguments import Verbs, add_json
from wenzhen.models import EVIDENCE


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "index",
        help="index the training consultations, to show the nearest ones beside an answer",
        description="Index the training consultations of a model, so that answers come with those nearest to\n"
        "the question, and measure from where on a question is not covered and the model unsure.\n"
        "The index lies in MODEL/evidence and holds the consultations themselves.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder, an exported one too")
    parser.add_argument("--dataset", type=Path, help="dataset folder (default: the one in the model's recipe)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier index")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Index, measure, and say what was found."""
    from wenzhen.answering.evidence.building import build_index

    start = time.perf_counter()
    meta = build_index(arguments.model, arguments.dataset, arguments.overwrite)
    folder = arguments.model / EVIDENCE
    if arguments.json:
        print(json.dumps({"index": str(folder), **meta}, ensure_ascii=False))
        return 0
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"consultations       {meta['consultations']:,} of {meta['dataset']['name']}")
    for line in calibration_lines(meta):
        print(line)
    print(f"index: {folder}  ({size / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s)")
    return 0


def calibration_lines(meta: dict[str, Any]) -> list[str]:
    """Say what the thresholds are and what they follow from."""
    measured = meta["calibration"]
    lines = []
    for name, below in (("similarity", "not covered"), ("probability", "unsure")):
        spread = measured[name]
        if spread is None:
            lines.append(f"{name:<20}not measured: the model wrote no answer")
            continue
        quantiles = ", ".join(f"{float(share):.0%} {value:.3f}" for share, value in spread["quantiles"].items())
        least = meta[f"least_{name}"]
        lines.append(f"{name:<20}below {least:.3f}: {below}  (validation, {spread['count']:,}: {quantiles})")
    share, count = measured["test_share_uncovered"], measured["test_questions"]
    lines.append(f"{'test questions':<20}{share:.1%} of {count:,} wrongly taken to be not covered")
    return lines
