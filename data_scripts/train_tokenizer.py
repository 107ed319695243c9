"""Train the character tokenizer on a dataset's training split.

python data_scripts/train_tokenizer.py --dataset outputs/sample-dataset --output outputs/sample-tokenizer
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError, run
from wenzhen.folders import published_folder

# What a tokenizer folder holds; the first marks it as one.
CONTENTS = ("tokenizer.json", "tokenizer_config.json")


def main(argv: Sequence[str]) -> int:
    """Parse the command line, train, save, say how large the vocabulary is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of build_dataset.py")
    parser.add_argument("--output", type=Path, required=True, help="the folder to make")
    parser.add_argument(
        "--min-frequency", type=int, default=1, help="leave rarer characters out (default: %(default)s)"
    )
    parser.add_argument("--vocab-size", type=int, help="keep at most so many tokens (default: all)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier tokenizer in the output folder")
    arguments = parser.parse_args(argv)
    if arguments.min_frequency < 1:
        raise UsageError(f"--min-frequency must be at least 1, got {arguments.min_frequency}")
    if arguments.vocab_size is not None and arguments.vocab_size < 5:
        raise UsageError(f"--vocab-size must be at least 5 (four tokens are special), got {arguments.vocab_size}")
    split = load_split(arguments.dataset, "train")

    # Takes seconds to import: after the arguments are known to be good.
    from wenzhen.tokenization import save_tokenizer, train_tokenizer

    texts = (text for column in ("title", "question", "answer") for text in split[column])
    tokenizer = train_tokenizer(texts, arguments.min_frequency, arguments.vocab_size)
    with published_folder(arguments.output, CONTENTS, arguments.overwrite) as folder:
        save_tokenizer(tokenizer, folder)
    print(f"{len(tokenizer):,} tokens from {len(split):,} records")
    print(f"tokenizer: {arguments.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
