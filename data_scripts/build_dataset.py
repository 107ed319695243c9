"""Build the dataset: six department CSVs in; train, validation and test out, with a report and the rejected records.

python data_scripts/build_dataset.py --input outputs/sample-corpus --output outputs/sample-dataset
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from datasets import disable_progress_bars

from wenzhen.corpus.building import build_dataset
from wenzhen.errors import UsageError, run


def main(argv: Sequence[str]) -> int:
    """Parse the command line, build the dataset, print its counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", type=Path, required=True, help="folder with the six departments' CSVs")
    parser.add_argument("--output", type=Path, required=True, help="the folder to make")
    parser.add_argument("--seed", type=int, default=42, help="of the split (default: %(default)s)")
    parser.add_argument("--test-share", type=float, default=0.3, help="part for test (default: %(default)s)")
    parser.add_argument(
        "--validation-share", type=float, default=0.05, help="part of the rest for validation (default: %(default)s)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier dataset in the output folder")
    arguments = parser.parse_args(argv)
    for name in ("test_share", "validation_share"):
        if not 0 < getattr(arguments, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be between 0 and 1, got {getattr(arguments, name)}")
    if not sys.stderr.isatty():
        disable_progress_bars()
    report = build_dataset(
        arguments.input,
        arguments.output,
        seed=arguments.seed,
        test_share=arguments.test_share,
        validation_share=arguments.validation_share,
        overwrite=arguments.overwrite,
    )
    print(f"{report['read']:,} records read = {report['kept']:,} kept + {sum(report['rejected'].values()):,} rejected")
    for reason, count in report["rejected"].items():
        print(f"rejected: {count:,} {reason}")
    for name in report["ignored_files"]:
        print(f"ignored: {name} (in no department's folder)")
    print(", ".join(f"{name} {count:,}" for name, count in report["splits"].items()))
    print(f"dataset: {arguments.output}  (report.md, rejects.jsonl)")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
