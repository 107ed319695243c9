"""Splitting records so that nothing stands on both sides."""

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SPLITS = ("train", "validation", "test")


def split_groups(
    groups: Sequence[int], strata: Sequence[str], test_share: float, validation_share: float, seed: int
) -> dict[str, list[int]]:
    """Deal whole groups out to the splits, stratum by stratum, in an order drawn from `seed`.

    Args:
        groups: each record's group.
        strata: each record's stratum; a group goes with that of its first record.
        test_share: part of each stratum's records for `test`.
        validation_share: part of the records that are left for `validation`; the others are `train`.
        seed: of the draw.

    Returns:
        The record numbers of each split of [`SPLITS`], shuffled.
    """
    rng = random.Random(seed)
    members: dict[int, list[int]] = defaultdict(list)
    for record, group in enumerate(groups):
        members[group].append(record)
    by_stratum: dict[str, list[list[int]]] = defaultdict(list)
    for records in members.values():
        by_stratum[strata[records[0]]].append(records)

    splits: dict[str, list[int]] = {name: [] for name in SPLITS}
    for stratum in by_stratum.values():
        rng.shuffle(stratum)
        size = sum(map(len, stratum))
        room = {"test": round(size * test_share)}
        room["validation"] = round((size - room["test"]) * validation_share)
        for records in stratum:
            # A group too large for what is left of a split falls through to the next, in the end to train.
            split = next((name for name, left in room.items() if len(records) <= left), "train")
            splits[split] += records
            if split in room:
                room[split] -= len(records)
    for records in splits.values():
        rng.shuffle(records)
    return splits


def count_leaks(keys: npt.NDArray[np.int64], splits: dict[str, list[int]]) -> dict[str, int]:
    """Count the records of validation and test whose key stands in train too; `keys` has one for each record."""
    trained = keys[splits["train"]]
    return {name: int(np.isin(keys[splits[name]], trained).sum()) for name in SPLITS if name != "train"}
