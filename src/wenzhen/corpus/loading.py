"""Loading a dataset that build_dataset.py made."""

import json
from pathlib import Path
from typing import Any

from datasets import Dataset, Value, load_from_disk

from wenzhen.corpus.schema import COLUMNS, DATASET_FILE, REPORT_FILE, TEXT_COLUMNS
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError


def split_leakage(folder: Path, split: str) -> dict[str, int | None] | None:
    """Return how many records of a split stand in train too, by kind, if the dataset's report tells."""
    file = folder / REPORT_FILE
    if split == "train" or not file.is_file():
        return None
    try:
        leaks = json.loads(file.read_text(encoding="utf-8"))["leakage"]
        return {kind: counts and int(counts[split]) for kind, counts in leaks.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{file} is damaged: {error!r}; build the dataset again, or remove the file") from error


def load_split(folder: Path, split: str) -> Dataset:
    """Load one split of a dataset folder.

    Raises:
        UsageError: the folder is no dataset of ours or a damaged one, or has no such split.
    """
    if split not in SPLITS:
        raise UsageError(f"no split `{split}`; there are: {', '.join(SPLITS)}")
    if not (folder / DATASET_FILE).is_file() or not (folder / split).is_dir():
        raise UsageError(
            f"{folder} holds no dataset with a {split} split; make one with data_scripts/build_dataset.py"
        )
    advice = "build the dataset again with data_scripts/build_dataset.py"
    try:
        dataset: Any = load_from_disk(str(folder / split))
    except IndexError as error:
        # A split that was saved without a row has no file, which the library cannot load.
        raise UsageError(f"the {split} split of {folder} holds no record; {advice}") from error
    # The library checks nothing: what a damaged file makes it raise is anybody's guess.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(f"the {split} split of {folder} cannot be read: {reason}; {advice}") from error
    missing = [name for name in COLUMNS if name not in dataset.column_names]
    if missing:
        raise UsageError(
            f"the dataset {folder} lacks the columns {', '.join(missing)}; it has: {dataset.column_names}"
        )
    texts = (Value("string"), Value("large_string"))
    wrong = [name for name in TEXT_COLUMNS if dataset.features[name] not in texts or dataset.data[name].null_count]
    if wrong:
        raise UsageError(
            f"the {split} split of {folder} holds other than texts in the columns {', '.join(wrong)}; {advice}"
        )
    return dataset
