"""Train a tokenizer on a dataset's training split, extend one, or compare the kinds of tokenizers.

python data_scripts/train_tokenizer.py --dataset outputs/sample-dataset --output outputs/sample-tokenizer
python data_scripts/train_tokenizer.py --dataset outputs/sample-dataset --output outputs/sample-bpe --kind bpe
python data_scripts/train_tokenizer.py --dataset outputs/new-dataset --output outputs/more --extend outputs/quickstart
python data_scripts/train_tokenizer.py --dataset outputs/sample-dataset --compare
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError, run
from wenzhen.folders import published_folder
from wenzhen.tokenization import KINDS, load_tokenizer, save_tokenizer, train_tokenizer
from wenzhen.tokenization.comparison import compare_kinds, comparison_table
from wenzhen.tokenization.extension import extend_tokenizer
from wenzhen.tokenization.kinds import VOCAB_SIZE
from wenzhen.tokenization.texts import SplitTexts
from wenzhen.training.batching import sample_split

# What a tokenizer folder holds; the first marks it as one.
CONTENTS = ("tokenizer.json", "tokenizer_config.json")
# Of the records that pieces are learned from: more cost memory by the gigabyte and change little.
SAMPLE_SIZE = 100_000
SEED = 42


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of build_dataset.py")
    parser.add_argument("--output", type=Path, help="the folder to make")
    parser.add_argument("--kind", choices=KINDS, help=f"of tokenizer (default: {KINDS[0]})")
    parser.add_argument(
        "--vocab-size", type=int, help=f"keep at most so many tokens (default: character all, others {VOCAB_SIZE:,})"
    )
    parser.add_argument(
        "--min-frequency",
        type=int,
        help="leave rarer characters out (character, wordpiece; default: 1), make no piece of rarer pairs "
        "(bpe, wordpiece; default: 2)",
    )
    parser.add_argument(
        "--sample-size",
        type=int,
        help=f"learn pieces from so many records, drawn with a fixed seed; -1 for all (default: {SAMPLE_SIZE:,}; "
        "characters are always counted in all records)",
    )
    parser.add_argument(
        "--extend",
        type=Path,
        metavar="FOLDER",
        help="take the character tokenizer of this tokenizer or model folder and put new characters behind its own, "
        "for fine-tuning with model.from",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier tokenizer in the output folder")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="train every kind, measure it on the validation split, print a table and save nothing",
    )
    parser.add_argument("--json", action="store_true", help="with --compare: print JSON for a program to read")
    return parser


def check_arguments(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be meant.

    Raises:
        UsageError: an argument is out of bounds, missing, or means nothing beside another.
    """
    for name, smallest in (("vocab_size", 5), ("min_frequency", 1), ("sample_size", 1)):
        value = getattr(arguments, name)
        if value is not None and value < smallest and (name, value) != ("sample_size", -1):
            why = {"vocab_size": " (four tokens are special)", "sample_size": ", or -1 for all records"}.get(name, "")
            raise UsageError(f"--{name.replace('_', '-')} must be at least {smallest}{why}, got {value}")
    if arguments.compare:
        others = ("output", "kind", "min_frequency", "extend", "overwrite")
        if idle := [name for name in others if getattr(arguments, name)]:
            raise UsageError(f"--{idle[0].replace('_', '-')} means nothing to --compare; leave it out")
        return
    if arguments.output is None:
        raise UsageError("--output is missing; name the folder to make, or ask for --compare")
    if arguments.json:
        raise UsageError("--json goes with --compare")
    if arguments.extend and arguments.kind:
        raise UsageError("--kind means nothing to --extend, which keeps the kind; leave it out")
    if arguments.kind == "unigram" and arguments.min_frequency is not None:
        raise UsageError("--min-frequency means nothing to unigram, which drops pieces by their use; leave it out")
    if arguments.kind in (None, "character") and arguments.sample_size is not None:
        raise UsageError("--sample-size means nothing to character, which reads all records; leave it out")


def main(argv: Sequence[str]) -> int:
    """Parse the command line; train and save a tokenizer and say how large it is, or compare."""
    arguments = build_parser().parse_args(argv)
    check_arguments(arguments)
    kind = arguments.kind or KINDS[0]
    split = load_split(arguments.dataset, "train")
    sampled = sample_split(split, SAMPLE_SIZE if arguments.sample_size is None else arguments.sample_size, SEED)
    texts, sample = SplitTexts(split), SplitTexts(sampled)
    source = f"pieces learned from {len(sampled):,} of {len(split):,} records"
    if arguments.compare:
        validation = list(SplitTexts(load_split(arguments.dataset, "validation")))
        rows = list(compare_kinds(texts, validation, vocab_size=arguments.vocab_size, sample=sample))
        if arguments.json:
            print(json.dumps(rows))
        else:
            print(f"{comparison_table(rows)}\n{source}; measured on {len(validation):,} texts of the validation split")
        return 0
    old = load_tokenizer(arguments.extend) if arguments.extend else None
    with published_folder(arguments.output, CONTENTS, arguments.overwrite) as folder:
        limits = {"vocab_size": arguments.vocab_size, "min_frequency": arguments.min_frequency or 1}
        if old:
            tokenizer = extend_tokenizer(old, texts, **limits)
        else:
            tokenizer = train_tokenizer(texts, kind, sample=sample, **limits)
        save_tokenizer(tokenizer, folder)
    print(f"{len(tokenizer):,} tokens from {len(split):,} records")
    if old:
        print(
            f"{len(old):,} of them those of {arguments.extend}, with their ids; {len(tokenizer) - len(old):,} are new"
        )
    if kind != "character":
        print(source)
    print(f"tokenizer: {arguments.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
