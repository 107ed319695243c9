"""Splitting records so that nothing stands on both sides."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

SPLITS = ("train", "validation", "test")


def group_records(keys: Iterable[Sequence[str]]) -> list[int]:
    """Group records that share a key, directly or through others.

    Args:
        keys: for each record what it may share with others, here its normalized question and its normalized answer.

    Returns:
        For each record the number of the first record of its group.
    """
    parents: list[int] = []
    first_with: dict[str, int] = {}

    def root(record: int) -> int:
        while parents[record] != record:
            parents[record] = parents[parents[record]]
            record = parents[record]
        return record

    for record, shared in enumerate(keys):
        parents.append(record)
        for key in shared:
            other = root(first_with.setdefault(key, record))
            here = root(record)
            parents[max(here, other)] = min(here, other)
    return [root(record) for record in range(len(parents))]


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


def count_leaks(keys: Sequence[str], splits: dict[str, list[int]]) -> dict[str, int]:
    """Count the records of validation and test whose key stands in train too."""
    trained = {keys[record] for record in splits["train"]}
    return {name: sum(keys[record] in trained for record in splits[name]) for name in SPLITS if name != "train"}
