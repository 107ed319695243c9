"""Write the sample corpus: six CSVs of demonstration consultations in the original's folders, columns and encoding.

python data_scripts/make_sample_corpus.py --output outputs/sample-corpus --pairs 10000
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from wenzhen.corpus.sample import FAULT_SHARES, write_sample_corpus
from wenzhen.corpus.schema import SOURCE_SIZES
from wenzhen.errors import UsageError, run


def main(argv: Sequence[str]) -> int:
    """Parse the command line, write the corpus, say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="the folder to make")
    parser.add_argument(
        "--pairs", type=int, default=10_000, help="records over all departments (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=42, help="the same seed gives the same bytes (default: %(default)s)"
    )
    parser.add_argument(
        "--faults", action="store_true", help=f"plant the real corpus' faults: {', '.join(FAULT_SHARES)}"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier corpus in the output folder")
    arguments = parser.parse_args(argv)
    largest = sum(SOURCE_SIZES.values())
    if not 1 <= arguments.pairs <= largest:
        raise UsageError(f"--pairs must be from 1 to {largest:,} (the original's size), got {arguments.pairs:,}")
    manifest = write_sample_corpus(
        arguments.output, arguments.pairs, arguments.seed, arguments.faults, arguments.overwrite
    )
    for department, size in manifest["departments"].items():
        print(f"{department}\t{size:,} pairs")
    for fault, count in manifest["faults"].items():
        if count:
            print(f"planted {fault}: {count:,} rows")
    print(f"sample corpus: {arguments.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
