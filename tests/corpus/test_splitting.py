import random
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from wenzhen.corpus.splitting import SPLITS, count_leaks, split_groups


def drawn(seed, records=300):
    rng = random.Random(seed)
    return [rng.randrange(200) for _ in range(records)], [rng.choice("甲乙丙") for _ in range(records)]


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


@pytest.mark.parametrize(
    ("size", "test_share", "validation_share", "expected"),
    [
        # Seven tenths and three, as in the thesis, and 5 % of the seven tenths for validation.
        (1000, 0.3, 0.05, (665, 35, 300)),
        (200, 0.5, 0.5, (50, 50, 100)),
        (100, 0.1, 0.2, (72, 18, 10)),
        # Too few to give any away.
        (1, 0.3, 0.05, (1, 0, 0)),
        (2, 0.3, 0.05, (1, 0, 1)),
        (3, 0.3, 0.05, (2, 0, 1)),
        (0, 0.3, 0.05, (0, 0, 0)),
    ],
)
def test_sizes_by_hand(size, test_share, validation_share, expected):
    splits = split_groups(range(size), ["甲"] * size, test_share, validation_share, 0)
    assert tuple(map(len, splits.values())) == expected


def test_no_split_exceeds_its_share_whatever_the_groups():
    groups, strata = drawn(1)
    splits = split_groups(groups, strata, 0.3, 0.1, 0)
    # A group counts in the stratum of its first record.
    heads = [strata[groups.index(group)] for group in groups]
    for stratum, size in Counter(heads).items():
        counts = {name: sum(heads[record] == stratum for record in records) for name, records in splits.items()}
        assert counts["test"] <= round(0.3 * size)
        assert counts["validation"] <= round(0.1 * (size - round(0.3 * size)))


def test_the_split_depends_on_the_seed_alone():
    groups, strata = drawn(0)
    assert split_groups(groups, strata, 0.3, 0.1, 7) == split_groups(groups, strata, 0.3, 0.1, 7)
    first, second = (split_groups(groups, strata, 0.3, 0.1, seed) for seed in (7, 8))
    assert set(first["test"]) != set(second["test"])


def test_the_names_of_the_groups_make_no_difference():
    groups, strata = drawn(0)
    renamed = [1_000_000 - group for group in groups]
    assert split_groups(groups, strata, 0.3, 0.1, 7) == split_groups(renamed, strata, 0.3, 0.1, 7)


def test_every_record_comes_into_test_about_as_often_as_any_other():
    draws = [split_groups(range(20), ["甲"] * 20, 0.3, 0.1, seed)["test"] for seed in range(500)]
    tests = Counter(chain.from_iterable(draws))
    # 500 draws of 6 out of 20: 150 each, with a standard deviation of (500 * 0.3 * 0.7) ** 0.5 = 10.
    assert all(110 < tests[record] < 190 for record in range(20))


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
    keys = np.array([0, 1, 0, 0, 2, 1, 3])
    splits = {"train": [0, 1], "validation": [2, 4], "test": [3, 5, 6]}
    assert count_leaks(keys, splits) == {"validation": 1, "test": 2}


def test_what_validation_and_test_share_is_no_leak_from_train():
    splits = {"train": [0], "validation": [1], "test": [2]}
    assert count_leaks(np.array([0, 1, 1]), splits) == {"validation": 0, "test": 0}


@pytest.mark.parametrize("seed", range(5))
def test_leaks_equal_those_of_a_second_count(seed):
    rng = random.Random(seed)
    keys = [rng.randrange(150) for _ in range(200)]
    splits = split_groups(range(200), ["甲"] * 200, 0.3, 0.2, seed)
    trained = {keys[record] for record in splits["train"]}
    expected = {name: sum(keys[record] in trained for record in splits[name]) for name in ("validation", "test")}
    assert count_leaks(np.array(keys), splits) == expected
    assert expected["test"] > 0


def test_whole_groups_leak_nothing():
    groups, strata = drawn(3)
    splits = split_groups(groups, strata, 0.3, 0.1, 0)
    assert splits["test"] and splits["validation"]
    assert count_leaks(np.array(groups), splits) == {"validation": 0, "test": 0}
