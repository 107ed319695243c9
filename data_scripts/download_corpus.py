"""Download the original corpus: the six departments' CSVs as the author published them, each file verified.

python data_scripts/download_corpus.py --output outputs/corpus
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from wenzhen.corpus.download import BASE_URL, BLOB_IDS, download_corpus
from wenzhen.errors import UsageError, run

# No server needs longer for a byte, and the system's own limit lies near.
LONGEST_TIMEOUT_SECONDS = 3600.0


def main(argv: Sequence[str]) -> int:
    """Parse the command line, download, say where the corpus lies and what comes next."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="Stopped, it goes on where it was when it is run again."
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder to put the files into")
    parser.add_argument(
        "--base-url", default=BASE_URL, help="what holds the folder Data_数据, on a mirror (default: %(default)s)"
    )
    parser.add_argument(
        "--retries", type=int, default=5, help="of a file, after failures in a row (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout", type=float, default=30.0, help="seconds to wait for the next byte (default: %(default)s)"
    )
    arguments = parser.parse_args(argv)
    if arguments.retries < 0:
        raise UsageError(f"--retries must be at least 0, got {arguments.retries}")
    if not 0 < arguments.timeout <= LONGEST_TIMEOUT_SECONDS:
        raise UsageError(f"--timeout must be above 0 and at most {LONGEST_TIMEOUT_SECONDS:g}, got {arguments.timeout}")
    files = download_corpus(
        arguments.output,
        base_url=arguments.base_url,
        blob_ids=BLOB_IDS,
        retries=arguments.retries,
        timeout=arguments.timeout,
    )
    for file in files:
        origin = "downloaded" if file.fetched else "already there"
        print(f"{file.path.relative_to(arguments.output)}\t{file.size:,} bytes, {origin}, verified", flush=True)
    build = f"python data_scripts/build_dataset.py --input {shlex.quote(str(arguments.output))}"
    print(f"corpus: {arguments.output}  (next: {build} --output outputs/dataset)")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
