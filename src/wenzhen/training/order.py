"""The order of the data: which pairs each optimizer step sees, and how processes and forward passes share a step.

What a step sees is a function of the seed, the epoch and the size of a step, and of nothing else: the number of
processes, of forward passes and of workers, an interruption and other random numbers change nothing.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import Sampler
from transformers import TrainingArguments

from wenzhen.errors import UsageError

# Pairs of like lengths are shuffled among each other, at least so many steps of them.
BUCKET_STEPS = 4
# Ways to share a step in which each share of a budget can be kept.
SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def training_order(
    dataset: Any, arguments: TrainingArguments, max_tokens_per_batch: int = -1, pad_to_multiple_of: int = 1
) -> "Order":
    """Return the order that a run's settings ask for.

    Args:
        dataset: see [`pair_lengths`].
        arguments: they hold the seed, the strategy, and the size of a step: processes, forward passes, pairs in each.
        max_tokens_per_batch: in the place of pairs, tokens in each forward pass of a process; -1 for pairs.
        pad_to_multiple_of: what the lengths are padded to.

    Raises:
        UsageError: a pair is longer than the tokens of a forward pass.
    """
    question_lengths, answer_lengths = (
        -(-lengths // pad_to_multiple_of) * pad_to_multiple_of for lengths in pair_lengths(dataset)
    )
    forward_passes = arguments.world_size * arguments.gradient_accumulation_steps
    size = {"pairs": forward_passes * arguments.train_batch_size}
    if max_tokens_per_batch > 0:
        longest = (question_lengths + answer_lengths).max()
        if longest > max_tokens_per_batch:
            raise UsageError(
                f"training.max_tokens_per_batch is {max_tokens_per_batch}, but the longest pair has {longest} tokens; "
                "raise it to that, or lower data.max_question_length or data.max_answer_length"
            )
        size = {"tokens": forward_passes * max_tokens_per_batch}
    return Order(
        question_lengths,
        answer_lengths,
        seed=arguments.seed,
        group_by_length=arguments.train_sampling_strategy == "group_by_length",
        **size,
    )


def pair_lengths(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of each question and of each answer of an encoded dataset, or of a list of encoded pairs.

    Numbers in the place of answers have none.
    """
    question_lengths, answer_lengths = (column_lengths(dataset, name) for name in ("input_ids", "labels"))
    return question_lengths, answer_lengths


def column_lengths(dataset: Any, name: str) -> np.ndarray:
    """Return the length of each list in a column, zeros where it holds numbers."""
    if isinstance(dataset, list):
        return np.array([len(pair[name]) for pair in dataset])
    # Arrow knows them without reading the lists.
    tables = dataset.with_format("arrow", columns=[name]).iter(batch_size=1000)
    columns = (column for table in tables for column in table[name].chunks)
    lengths = [column.value_lengths() if is_list(column) else np.zeros(len(column), int) for column in columns]
    return np.concatenate(lengths, dtype=int)


def is_list(column: Any) -> bool:
    """Tell whether an Arrow array holds lists; the benchmark runs without the library that could say so."""
    return hasattr(column, "value_lengths")


class Order:
    """The steps of every epoch.

    The pairs lie in buckets: one of all pairs or, grouped by length, many of like question and answer lengths. Each
    epoch shuffles the pairs within their buckets, cuts the buckets into steps, and shuffles the steps. The cuts are
    the same in every epoch, and with them the number of steps.

    Args:
        question_lengths: tokens of each question as the model gets it, `[pairs]`.
        answer_lengths: tokens of each answer, `[pairs]`.
        seed: of the shuffling.
        pairs: number of pairs in a step; or
        tokens: largest number of tokens in a step, all questions padded to its longest and all answers to its longest.
            The steps of a bucket are sized for its longest pairs. A pair beyond the budget makes a step by itself.
        group_by_length: put pairs of like lengths into the same steps.
    """

    def __init__(
        self,
        question_lengths: np.ndarray,
        answer_lengths: np.ndarray,
        *,
        seed: int,
        pairs: int | None = None,
        tokens: int | None = None,
        group_by_length: bool = False,
    ) -> None:
        self.question_lengths, self.answer_lengths, self.seed = question_lengths, answer_lengths, seed
        # What a step learns from.
        self.step_size: dict[str, Any] = {"tokens": tokens} if tokens is not None else {"pairs": pairs}

        capacity = np.full(question_lengths.max() + answer_lengths.max() + 1, pairs)
        if tokens is not None:
            capacity = pairs_within(tokens, np.arange(len(capacity)))
        buckets = [np.arange(len(question_lengths))]
        if group_by_length:
            buckets = divide_by_length(question_lengths, answer_lengths, capacity)
        self.pairs = np.concatenate(buckets)
        self.bucket_of = np.repeat(np.arange(len(buckets)), [len(bucket) for bucket in buckets])
        starts: list[int] = []
        first = 0
        for bucket in buckets:
            longest = question_lengths[bucket].max() + answer_lengths[bucket].max()
            starts += range(first, first + len(bucket), int(capacity[longest]))
            first += len(bucket)
        self.starts = np.array(starts)

    def __len__(self) -> int:
        """Return the number of steps in an epoch."""
        return len(self.starts)

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """Return the pairs of each step, every pair once; the largest step comes first, for it may not fit."""
        random = np.random.default_rng((self.seed, epoch))
        pairs = self.pairs[np.lexsort((random.random(len(self.pairs)), self.bucket_of))]
        steps = np.split(pairs, self.starts[1:])
        order = random.permutation(len(steps))
        padded_lengths = np.maximum.reduceat(self.question_lengths[pairs], self.starts)
        padded_lengths += np.maximum.reduceat(self.answer_lengths[pairs], self.starts)
        tokens = padded_lengths * np.diff(self.starts, append=len(pairs))
        largest = tokens[order].argmax()
        order[0], order[largest] = order[largest], order[0]
        return [steps[step] for step in order]

    def share(self, step: np.ndarray, processes: int, accumulation: int) -> list[list[np.ndarray]]:
        """Share a step's pairs out.

        Forward passes get pairs of like lengths, the longest pairs the first pass; within a pass every process gets as
        much to do as the others. No two shares differ by more than one pair, and where there are not enough pairs
        some are empty.

        Returns:
            The pairs of forward pass `i` in process `r` at `[i][r]`.
        """
        lengths = self.question_lengths[step] + self.answer_lengths[step]
        longest_first = step[np.argsort(-lengths, kind="stable")]
        each, left = divmod(len(step), processes * accumulation)
        # What is left over goes to the passes of the shortest pairs.
        extra = np.clip(left - processes * np.arange(accumulation)[::-1], 0, processes)
        passes = np.split(longest_first, np.cumsum(processes * each + extra)[:-1])
        return [deal(pairs, processes) for pairs in passes]


def deal(pairs: np.ndarray, hands: int) -> list[np.ndarray]:
    """Deal pairs in order out to hands, forth and back, so that sorted pairs are shared evenly."""
    rounds, seats = np.divmod(np.arange(len(pairs)), hands)
    owners = np.where(rounds % 2, hands - 1 - seats, seats)
    return [pairs[owners == hand] for hand in range(hands)]


def pairs_within(tokens: int, padded_lengths: np.ndarray) -> np.ndarray:
    """Return how many pairs of given lengths, question and answer together, fit into a budget of tokens; at least 1.

    The number is such that each of [`SHARES`] equal shares stays within its part of the budget, if it has room for as
    many pairs as there are shares; if it has not, it may be beyond its part by one pair.
    """
    fitting = np.maximum(tokens // np.maximum(padded_lengths, 1), 1)
    pairs = fitting
    for shares in SHARES:
        pairs = np.where(shares * shares <= fitting, np.minimum(pairs, fitting // shares * shares), pairs)
    return pairs


def divide_by_length(
    question_lengths: np.ndarray, answer_lengths: np.ndarray, capacity: np.ndarray
) -> list[np.ndarray]:
    """Divide pairs into buckets of like lengths.

    Each division is the one, by question length or by answer length, that saves the most padding; a bucket is divided
    as long as both parts fill [`BUCKET_STEPS`] steps, and the first part fills its steps to the last pair.

    Args:
        question_lengths: `[pairs]`.
        answer_lengths: `[pairs]`.
        capacity: pairs in a step, at the index of their padded length, question and answer together.
    """
    buckets = []
    undivided = [np.arange(len(question_lengths))]
    while undivided:
        bucket = undivided.pop()
        least = len(bucket) * (question_lengths[bucket].max() + answer_lengths[bucket].max())
        parts: list[np.ndarray] = []
        for lengths in (question_lengths, answer_lengths):
            ordered = bucket[np.argsort(lengths[bucket], kind="stable")]
            below = longest_so_far(question_lengths, answer_lengths, ordered)[:-1]
            above = longest_so_far(question_lengths, answer_lengths, ordered[::-1])[-2::-1]
            counts = np.arange(1, len(bucket))
            fits = counts % capacity[below] == 0
            fits &= counts >= BUCKET_STEPS * capacity[below]
            fits &= len(bucket) - counts >= BUCKET_STEPS * capacity[above]
            padded = np.where(fits, counts * below + (len(bucket) - counts) * above, least)
            if len(padded) and padded.min() < least:
                least = padded.min()
                parts = np.split(ordered, [counts[padded.argmin()]])
        undivided += parts[::-1]
        buckets += [] if parts else [bucket]
    return buckets


def longest_so_far(question_lengths: np.ndarray, answer_lengths: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return the padded length, question and answer together, of the pairs up to each one."""
    longest: np.ndarray = np.maximum.accumulate(question_lengths[pairs])
    return longest + np.maximum.accumulate(answer_lengths[pairs])


class StepSampler(Sampler[list[int]]):
    """One process' pairs of every forward pass of an epoch, for a `DataLoader`; an empty list where it has none.

    Args:
        order: the steps.
        process_index: which of the processes this is.
        processes: how many share a step.
        accumulation: forward passes of each in a step.
    """

    def __init__(self, order: Order, process_index: int = 0, processes: int = 1, accumulation: int = 1) -> None:
        self.order = order
        self.process_index = process_index
        self.processes = processes
        self.accumulation = accumulation
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of this process' forward passes in an epoch."""
        return len(self.order) * self.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the pairs of each of this process' forward passes."""
        for step in self.order.epoch(self.epoch):
            for shares in self.order.share(step, self.processes, self.accumulation):
                yield shares[self.process_index].tolist()
