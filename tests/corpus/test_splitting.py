import random
from collections import Counter
from itertools import chain

import pytest

from wenzhen.corpus.splitting import SPLITS, count_leaks, group_records, split_groups


def connected(keys):
    """Group by walking from every record to all that it shares a key with: quadratic, but plainly right."""
    groups = [None] * len(keys)
    for start in range(len(keys)):
        waiting = [start] if groups[start] is None else []
        while waiting:
            here = waiting.pop()
            groups[here] = start
            waiting += [n for n, key in enumerate(keys) if groups[n] is None and set(key) & set(keys[here])]
    return groups


def test_groups_reach_through_others():
    a, b, c, other = ("q1", "a1"), ("q1", "a2"), ("q2", "a2"), ("q3", "a3")
    assert group_records([a, other, b, c]) == [0, 1, 0, 0]
    assert group_records([a, other, c, b]) == [0, 1, 0, 0]


def test_records_that_share_nothing_are_groups_of_their_own():
    assert group_records([("q1", "a1"), ("q2", "a2"), ("q3", "a3")]) == [0, 1, 2]
    assert group_records([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_groups_equal_those_of_a_second_implementation(seed):
    rng = random.Random(seed)
    keys = [(f"q{rng.randrange(60)}", f"a{rng.randrange(60)}") for _ in range(50)]
    assert group_records(keys) == connected(keys)


def drawn(seed, records=300):
    rng = random.Random(seed)
    groups = group_records([(str(rng.randrange(200)),) for _ in range(records)])
    return groups, [rng.choice("甲乙丙") for _ in range(records)]


@pytest.mark.parametrize("seed", range(10))
def test_every_record_is_in_one_split_and_every_group_whole(seed):
    groups, strata = drawn(seed)
    splits = split_groups(groups, strata, 0.3, 0.1, seed)
    assert tuple(splits) == SPLITS == ("train", "validation", "test")
    assert sorted(chain.from_iterable(splits.values())) == list(range(len(groups)))
    sides = [{groups[record] for record in records} for records in splits.values()]
    assert sum(map(len, sides)) == len(set(groups))


@pytest.mark.parametrize("seed", range(5))
def test_single_records_are_split_in_the_shares_asked_for_in_every_stratum(seed):
    strata = ["甲"] * 100 + ["乙"] * 40 + ["丙"]
    splits = split_groups(range(141), strata, 0.3, 0.1, seed)
    assert {name: Counter(strata[record] for record in records) for name, records in splits.items()} == {
        "train": {"甲": 63, "乙": 25, "丙": 1},
        "validation": {"甲": 7, "乙": 3},
        "test": {"甲": 30, "乙": 12},
    }


def test_no_split_exceeds_its_share_whatever_the_groups():
    groups, strata = drawn(1)
    splits = split_groups(groups, strata, 0.3, 0.1, 0)
    heads = [strata[group] for group in groups]
    for stratum, size in Counter(heads).items():
        counts = {name: sum(heads[record] == stratum for record in records) for name, records in splits.items()}
        assert counts["test"] <= round(0.3 * size)
        assert counts["validation"] <= round(0.1 * (size - round(0.3 * size)))


def test_the_split_depends_on_the_seed_alone():
    groups, strata = drawn(0)
    assert split_groups(groups, strata, 0.3, 0.1, 7) == split_groups(groups, strata, 0.3, 0.1, 7)
    first, second = (split_groups(groups, strata, 0.3, 0.1, seed) for seed in (7, 8))
    assert set(first["test"]) != set(second["test"])


@pytest.mark.parametrize("seed", range(10))
def test_a_group_larger_than_the_quota_goes_to_train(seed):
    # Of ten records three may go to test and round(7 * 0.3) = 2 to validation.
    splits = split_groups([0, 0, 0, 0, 4, 5, 6, 7, 8, 9], ["甲"] * 10, 0.3, 0.3, seed)
    assert set(splits["train"]) > {0, 1, 2, 3}
    assert {name: len(records) for name, records in splits.items()} == {"train": 5, "validation": 2, "test": 3}


def test_records_of_a_split_are_shuffled_over_the_strata():
    strata = ["甲"] * 50 + ["乙"] * 50
    train = split_groups(range(100), strata, 0.3, 0.1, 0)["train"]
    assert train != sorted(train)
    assert len({strata[record] for record in train[:20]}) == 2


def test_leaks_counted_by_hand():
    keys = ["a", "b", "a", "a", "c", "b", "d"]
    splits = {"train": [0, 1], "validation": [2, 4], "test": [3, 5, 6]}
    assert count_leaks(keys, splits) == {"validation": 1, "test": 2}


def test_whole_groups_leak_nothing():
    rng = random.Random(0)
    keys = [(f"q{rng.randrange(500)}", f"a{rng.randrange(500)}") for _ in range(200)]
    splits = split_groups(group_records(keys), ["甲"] * 200, 0.3, 0.1, 0)
    assert splits["test"] and splits["validation"]
    for side in (0, 1):
        assert count_leaks([key[side] for key in keys], splits) == {"validation": 0, "test": 0}
