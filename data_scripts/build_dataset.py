"""Build the dataset: consultations in; train, validation and test out, with a report and the rejected records.

python data_scripts/build_dataset.py --input outputs/sample-corpus --output outputs/sample-dataset
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import disable_progress_bars

from wenzhen.corpus.building import STEPS, BuildOptions, build_dataset
from wenzhen.corpus.collecting import LengthBounds
from wenzhen.corpus.reading import COLUMN_NAMES, ReadingOptions
from wenzhen.corpus.sources import check_encoding
from wenzhen.errors import UsageError, run
from wenzhen.hub.dataset import push_dataset
from wenzhen.hub.repository import check_push


def main(argv: Sequence[str]) -> int:
    """Parse the command line, build the dataset, print its counts, push it where that is asked for."""
    arguments = parse(argv)
    if not sys.stderr.isatty():
        disable_progress_bars()
    if arguments.input:
        if arguments.push:
            # Before the long work; without it the push checks soon enough.
            check_push(arguments.push, "dataset", arguments.private)
        report = build_dataset(arguments.input, arguments.output, options(arguments), overwrite=arguments.overwrite)
        print_report(report)
    print(f"dataset: {arguments.output}  (report.md, rejects.jsonl)")
    if arguments.push:
        print(f"pushed: {push_dataset(arguments.output, arguments.push, arguments.private)}")
    return 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line and check what can be checked without looking at files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--input",
        type=Path,
        help="a CSV, JSON lines (.jsonl) or Parquet file, or a folder of such; files below folders that end in a "
        "department's name (IM_内科/) belong to it. Left out with --push: push a dataset that is built already",
    )
    parser.add_argument("--output", type=Path, required=True, help="the dataset folder to make")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier dataset in the output folder")

    reading = parser.add_argument_group("reading")
    reading.add_argument("--encoding", help="of the files (default: UTF-8 where they are that, else GB18030)")
    reading.add_argument(
        "--columns",
        metavar="FIELD=COLUMN,…",
        default="",
        help=f"names of the files' columns; fields: {', '.join(COLUMN_NAMES)} (as question=instruction,answer=output)",
    )
    reading.add_argument(
        "--department", metavar="NAME", help="of records for which neither folder nor column names one"
    )

    cleaning = parser.add_argument_group("cleaning")
    cleaning.add_argument("--skip", metavar="STEP,…", default="", help=f"steps not to do, of: {', '.join(STEPS)}")
    bounds = LengthBounds()
    for name, default in (("question", bounds.question), ("answer", bounds.answer)):
        cleaning.add_argument(
            f"--max-{name}-length",
            type=int,
            default=default,
            help=f"a record whose {name} has more characters is marked too_long (default: %(default)s)",
        )
    cleaning.add_argument("--drop-long", action="store_true", help="reject such records instead")

    splitting = parser.add_argument_group("splitting")
    splitting.add_argument(
        "--split",
        choices=("groups", "random"),
        default="groups",
        help="groups: nothing that is the same or nearly so on two sides; random: every record alone, duplicates "
        "included, as in the thesis: it leaks (default: %(default)s)",
    )
    splitting.add_argument("--test-share", type=float, default=0.3, help="part for test (default: %(default)s)")
    splitting.add_argument(
        "--validation-share", type=float, default=0.05, help="part of the rest for validation (default: %(default)s)"
    )
    splitting.add_argument("--seed", type=int, default=42, help="of the split (default: %(default)s)")

    hub = parser.add_argument_group("sharing")
    hub.add_argument("--push", metavar="OWNER/NAME", help="push the dataset to this repository of the Hub")
    hub.add_argument("--private", action="store_true", help="make the repository a private one")
    arguments = parser.parse_args(argv)

    if not arguments.input and not arguments.push:
        raise UsageError("give --input, or --push to push a dataset that is built already")
    if arguments.private and not arguments.push:
        raise UsageError("--private is for --push")
    for name in ("test_share", "validation_share"):
        if not 0 < getattr(arguments, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be between 0 and 1, got {getattr(arguments, name)}")
    for name in ("max_question_length", "max_answer_length"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(arguments, name)}")
    if arguments.encoding:
        check_encoding(arguments.encoding)
    return arguments


def options(arguments: argparse.Namespace) -> BuildOptions:
    """Put the arguments into the options of a build."""
    if arguments.department is not None and not arguments.department.strip().isprintable():
        raise UsageError(f"--department must be a name, got {arguments.department!r}")
    if arguments.department is not None and not arguments.department.strip():
        raise UsageError("--department is empty")
    skip = frozenset(step.strip() for step in arguments.skip.split(",") if step.strip())
    if unknown := sorted(skip - set(STEPS)):
        raise UsageError(f"--skip knows no step {', '.join(unknown)}; the steps are: {', '.join(STEPS)}")
    return BuildOptions(
        reading=ReadingOptions(arguments.encoding, parse_columns(arguments.columns), arguments.department),
        bounds=LengthBounds(arguments.max_question_length, arguments.max_answer_length, arguments.drop_long),
        skip=skip,
        split=arguments.split,
        test_share=arguments.test_share,
        validation_share=arguments.validation_share,
        seed=arguments.seed,
    )


def parse_columns(text: str) -> dict[str, str]:
    """Return the column of each field named in `question=instruction,answer=output`."""
    columns: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column or field not in COLUMN_NAMES:
            raise UsageError(
                f"--columns got `{pair}`; expected FIELD=COLUMN with a field of: {', '.join(COLUMN_NAMES)}"
            )
        if field in columns:
            raise UsageError(f"--columns names the field {field} twice")
        columns[field] = column
    return columns


def print_report(report: dict[str, Any]) -> None:
    """Print the counts that matter most."""
    print(f"{report['read']:,} records read = {report['kept']:,} kept + {sum(report['rejected'].values()):,} rejected")
    for reason, count in report["rejected"].items():
        print(f"rejected: {count:,} {reason}")
    for step, count in report["cleaning"].items():
        if count != 0:
            print(f"not cleaned: {step}" if count is None else f"cleaned: {count:,} {step}".replace("_", " "))
    for name in report["ignored_files"]:
        print(f"ignored: {name} (no readable file, or in no department's folder)")
    print(", ".join(f"{name} {count:,}" for name, count in report["splits"].items()))
    for name, key in (("this split", "leakage"), ("a random split", "leakage_of_random_split")):
        leaks = ", ".join(f"{counts['test']:,} {kind}" for kind, counts in report[key].items() if counts)
        print(f"in test and train: {leaks} ({name})".replace("_", " "))


if __name__ == "__main__":
    raise SystemExit(run(main))
