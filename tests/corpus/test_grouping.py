import random
from collections import defaultdict, deque

import numpy as np
import pytest

from wenzhen.corpus.grouping import Groups


def components(size, edges):
    """Find for every vertex the smallest one that it hangs together with, by walking breadth first."""
    neighbours = defaultdict(set)
    for one, other in edges:
        neighbours[one].add(other)
        neighbours[other].add(one)
    smallest = [None] * size
    for start in range(size):
        queue = deque([start] if smallest[start] is None else [])
        while queue:
            here = queue.popleft()
            if smallest[here] is None:
                smallest[here] = start
                queue += neighbours[here]
    return smallest


def test_at_first_everything_is_alone():
    groups = Groups(4)
    assert groups.roots().tolist() == [groups.root(member) for member in range(4)] == [0, 1, 2, 3]


def test_there_may_be_nothing_to_group():
    groups = Groups(0)
    groups.join_equal(np.array([], dtype=np.int64))
    assert groups.roots().tolist() == []


def test_groups_reach_through_others_and_are_named_after_their_first_member():
    groups = Groups(7)
    groups.join(5, 3)
    groups.join(6, 4)
    assert groups.roots().tolist() == [0, 1, 2, 3, 4, 3, 4]
    groups.join(5, 6)
    groups.join(5, 5)
    assert groups.roots().tolist() == [0, 1, 2, 3, 3, 3, 3]
    groups.join(6, 1)
    assert groups.roots().tolist() == [0, 1, 2, 1, 1, 1, 1]


def test_members_with_the_same_code_are_joined():
    groups = Groups(6)
    groups.join_equal(np.array([7, 2, 7, 9, 2, 0]))
    assert groups.roots().tolist() == [0, 1, 0, 3, 1, 5]
    # A second set of codes ties groups of the first together.
    groups.join_equal(np.array([0, 1, 2, 0, 2, 5]))
    assert groups.roots().tolist() == [0, 0, 0, 0, 0, 5]


@pytest.mark.parametrize("seed", range(20))
def test_groups_equal_those_of_a_second_implementation(seed):
    rng = random.Random(seed)
    size = rng.randrange(1, 120)
    edges = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(size))]
    groups = Groups(size)
    for one, other in edges:
        groups.join(one, other)
    assert groups.roots().tolist() == components(size, edges)
    codes = [rng.randrange(size) for _ in range(size)]
    groups.join_equal(np.array(codes))
    edges += [(one, codes.index(code)) for one, code in enumerate(codes)]
    assert groups.roots().tolist() == [groups.root(member) for member in range(size)] == components(size, edges)


def test_a_long_chain_is_one_group():
    groups = Groups(50_000)
    for member in reversed(range(49_999)):
        groups.join(member, member + 1)
    assert not groups.roots().any()
