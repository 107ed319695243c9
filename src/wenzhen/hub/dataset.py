"""A dataset folder's way to the Hub: Parquet shards, the card and the report, in one commit."""

import json
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetInfo, SplitDict, SplitInfo

from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import FACTS_FILE, REPORT_FILE
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError
from wenzhen.hub.card import damage_told
from wenzhen.hub.companions import check_companion
from wenzhen.hub.dataset_card import dataset_card
from wenzhen.hub.repository import check_push, commit

# Of a shard's rows in memory; in the file they are smaller. The Hub's viewer wants shards of this size.
SHARD_BYTES = 500_000_000
# What goes along from a dataset folder. The rejected records never do: they are what people wrote, uncleaned.
COMPANIONS = (REPORT_FILE, "report.md", FACTS_FILE, "figures/*.png")
ADVICE = "build the dataset again with data_scripts/build_dataset.py"
# What an earlier push may have left in the repository that this one has no more.
REPLACED = (*(f"data/{split}-*" for split in SPLITS), FACTS_FILE, "figures/*.png")


def push_dataset(folder: Path, repository: str, private: bool, shard_bytes: int = SHARD_BYTES) -> str:
    """Publish a dataset folder as a dataset repository, which `datasets.load_dataset` loads by its name.

    One commit holds everything: whoever loads the repository meanwhile gets the old dataset or the new one.

    Args:
        folder: what build_dataset.py made.
        repository: `OWNER/NAME`; made where there is none.
        private: whether a new repository is for its owner alone.
        shard_bytes: the most bytes of rows in one Parquet file.

    Returns:
        The URL of what was pushed, the commit in it.

    Raises:
        UsageError: the folder holds no dataset, or as [`check_push`].
        RunError: the Hub cannot be reached, or fails; nothing is published then.
    """
    splits, report = read_folder(folder)
    check_push(repository, "dataset", private)
    companions = {
        path.relative_to(folder).as_posix(): path for pattern in COMPANIONS for path in sorted(folder.glob(pattern))
    }
    for path in companions.values():
        check_companion(folder, path)
    with tempfile.TemporaryDirectory(prefix="wenzhen-") as scratch:
        shards = write_shards(splits, Path(scratch), shard_bytes)
        info = describe(splits, sum(path.stat().st_size for path in shards.values()))
        figures = [path.name for path in companions.values() if path.suffix == ".png"]
        with damage_told(folder / REPORT_FILE, ADVICE):
            card = dataset_card(repository, report, info, figures).encode()
        return commit(repository, "dataset", private, {"README.md": card, **companions, **shards}, REPLACED)


def read_folder(folder: Path) -> tuple[dict[str, Dataset], dict[str, Any]]:
    """Return a dataset folder's splits and its report.

    Raises:
        UsageError: the folder holds no dataset with a report that fits it.
    """
    splits = {name: load_split(folder, name) for name in SPLITS}
    file = folder / REPORT_FILE
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} has no {REPORT_FILE}; {ADVICE}") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}; {ADVICE}") from error
    rows = {name: len(split) for name, split in splits.items()}
    if not isinstance(report, dict) or report.get("splits") != rows:
        raise UsageError(f"{file} does not describe the splits that lie beside it ({rows}); {ADVICE}")
    return splits, report


def write_shards(splits: dict[str, Dataset], folder: Path, shard_bytes: int) -> dict[str, Path]:
    """Write every split as Parquet files of about equal numbers of rows.

    Returns:
        The files by their paths in the repository.
    """
    (folder / "data").mkdir()
    shards = {}
    for name, split in splits.items():
        number = min(split.data.nbytes // shard_bytes + 1, len(split))
        for index in range(number):
            path = f"data/{name}-{index:05d}-of-{number:05d}.parquet"
            split.shard(number, index, contiguous=True).to_parquet(folder / path)
            shards[path] = folder / path
    return shards


def describe(splits: dict[str, Dataset], download_bytes: int) -> DatasetInfo:
    """Return what a card's header tells of a dataset: features, splits and sizes."""
    sizes = SplitDict()
    for name, split in splits.items():
        sizes.add(SplitInfo(name=name, num_bytes=split.data.nbytes, num_examples=len(split)))
    return DatasetInfo(
        features=next(iter(splits.values())).features,
        splits=sizes,
        download_size=download_bytes,
        dataset_size=sum(size.num_bytes for size in sizes.values()),
    )
