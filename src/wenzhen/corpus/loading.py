"""Loading a dataset that build_dataset.py made."""

from pathlib import Path
from typing import Any

from datasets import Dataset, load_from_disk

from wenzhen.corpus.schema import COLUMNS, DATASET_FILE
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError


def load_split(folder: Path, split: str) -> Dataset:
    """Load one split of a dataset folder.

    Raises:
        UsageError: the folder is no dataset of ours, or has no such split.
    """
    if split not in SPLITS:
        raise UsageError(f"no split `{split}`; there are: {', '.join(SPLITS)}")
    if not (folder / DATASET_FILE).is_file() or not (folder / split).is_dir():
        raise UsageError(
            f"{folder} holds no dataset with a {split} split; make one with data_scripts/build_dataset.py"
        )
    dataset: Any = load_from_disk(str(folder / split))
    missing = [name for name in COLUMNS if name not in dataset.column_names]
    if missing:
        raise UsageError(
            f"the dataset {folder} lacks the columns {', '.join(missing)}; it has: {dataset.column_names}"
        )
    return dataset
