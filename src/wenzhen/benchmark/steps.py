"""Which pairs stand in which step: an epoch in each contestant's own order, and what is timed of it."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers.trainer_pt_utils import get_length_grouped_indices

from wenzhen.benchmark.pairs import SEED, Pool
from wenzhen.errors import UsageError
from wenzhen.training.order import Order


def our_epoch(pool: Pool, batch_size: int) -> list[np.ndarray]:
    """Return the steps of an epoch as `wenzhen train` orders it, the largest first."""
    order = Order(pool.question_lengths, pool.answer_lengths, seed=SEED, pairs=batch_size, group_by_length=True)
    return order.epoch(0)


def grouped_epoch(pool: Pool, batch_size: int) -> list[np.ndarray]:
    """Return the steps of an epoch as transformers orders it by the length of question and answer together."""
    lengths = pool.question_lengths + pool.answer_lengths
    generator = torch.Generator().manual_seed(SEED)
    return cut(get_length_grouped_indices(lengths.tolist(), batch_size, generator=generator), batch_size)


def random_epoch(pool: Pool, batch_size: int) -> list[np.ndarray]:
    """Return the steps of an epoch in random order."""
    return cut(np.random.default_rng(SEED).permutation(len(pool.question_lengths)), batch_size)


def cut(indices: Sequence[int] | np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Cut an order into steps."""
    return np.split(np.asarray(indices), range(batch_size, len(indices), batch_size))


def padded_tokens(pool: Pool, step: np.ndarray) -> int:
    """Return the tokens of a batch on both sides, padding counted."""
    return len(step) * int(pool.question_lengths[step].max() + pool.answer_lengths[step].max())


def spread_steps(
    pool: Pool, steps: list[np.ndarray], batch_size: int, repeats: int, count: int
) -> list[list[np.ndarray]]:
    """Choose some of an epoch's steps, so that each repeat has small ones and large ones in the epoch's proportions.

    Args:
        pool: what the steps are of.
        steps: the pairs of each.
        batch_size: pairs in a full step; others are left out.
        repeats: how many choices are made; no step is in two.
        count: steps in each choice.

    Returns:
        The steps of each repeat, in random order.

    Raises:
        UsageError: the epoch is too short.
    """
    full = [step for step in steps if len(step) == batch_size]
    if len(full) < repeats * count:
        raise UsageError(
            f"the dataset has {len(full):,} steps of {batch_size} pairs, but {repeats} x {count} are to be timed; "
            "lower --steps, --repeats or --batch-size"
        )
    by_size = np.argsort([padded_tokens(pool, step) for step in full], kind="stable")
    # The middles of as many equal parts of the epoch.
    chosen = by_size[((np.arange(repeats * count) + 0.5) * len(full) / (repeats * count)).astype(int)]
    random = np.random.default_rng(SEED)
    return [[full[index] for index in random.permutation(chosen[repeat::repeats])] for repeat in range(repeats)]
