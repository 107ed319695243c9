"""The order of the data: laws that hold for any lengths and any size of a step."""

import random
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import skip_first_batches
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments
from transformers.trainer_pt_utils import LabelSmoother, get_length_grouped_indices

from small_models import small_model, small_tokenizer
from wenzhen.errors import UsageError
from wenzhen.training.order import Order, StepSampler, pair_lengths, training_order
from wenzhen.training.trainer import WenzhenTrainer

SIZES = [{"pairs": 8}, {"pairs": 24}, {"tokens": 1000}, {"tokens": 6000}]
STRATEGIES = [False, True]
SPREADS = [(1, 1), (1, 8), (2, 4), (8, 1), (2, 1), (3, 2), (5, 1)]


def lengths(pairs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths of questions and answers that scatter as those of consultations do, independently."""
    random = np.random.default_rng(seed)
    questions = np.clip(random.lognormal(4, 0.5, pairs).astype(int), 4, 256)
    return questions, np.clip(random.normal(155, 40, pairs).astype(int), 40, 512)


def padded_tokens(questions: np.ndarray, answers: np.ndarray, batch: np.ndarray) -> int:
    """Count the tokens of a batch, padding to its longest question and its longest answer included."""
    return len(batch) * int(questions[batch].max() + answers[batch].max()) if len(batch) else 0


@pytest.mark.parametrize("pairs", [1, 2, 7, 8, 9, 1000])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("group_by_length", STRATEGIES)
def test_every_epoch_has_each_pair_once_in_as_many_steps(
    pairs: int, size: dict[str, int], group_by_length: bool
) -> None:
    order = Order(*lengths(pairs), seed=3, group_by_length=group_by_length, **size)
    for epoch in range(3):
        steps = order.epoch(epoch)
        assert len(steps) == len(order)
        assert sorted(np.concatenate(steps)) == list(range(pairs))
        if "pairs" in size:
            full, rest = divmod(pairs, size["pairs"])
            assert sorted(map(len, steps)) == [rest] * (rest > 0) + [size["pairs"]] * full


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("group_by_length", STRATEGIES)
def test_steps_depend_on_seed_and_epoch_and_on_nothing_else(size: dict[str, int], group_by_length: bool) -> None:
    def steps(seed: int, epoch: int) -> list[list[int]]:
        order = Order(*lengths(500), seed=seed, group_by_length=group_by_length, **size)
        return [step.tolist() for step in order.epoch(epoch)]

    first = steps(1, 4)
    random.seed(9), np.random.seed(9), torch.manual_seed(9)
    order = Order(*lengths(500), seed=1, group_by_length=group_by_length, **size)
    # Epochs in any order, and some twice.
    assert [step.tolist() for epoch in (0, 4, 7, 4) for step in order.epoch(epoch) if epoch == 4] == first + first
    assert first not in (steps(2, 4), steps(1, 5))


def test_pairs_of_like_lengths_meet_others_in_other_epochs() -> None:
    # As few pairs as a sample corpus has: what shared a step must not share it for ever.
    order = Order(*lengths(200), seed=1, pairs=8, group_by_length=True)
    together = [
        {(i, j) for step in order.epoch(epoch) for i in step.tolist() for j in step.tolist() if i < j}
        for epoch in range(2)
    ]
    assert len(together[0] & together[1]) < 0.4 * len(together[0])


@pytest.mark.parametrize("processes, accumulation", SPREADS)
@pytest.mark.parametrize("pairs", [0, 1, 3, 7, 8, 9, 40])
def test_a_step_is_shared_out_whole_and_evenly(pairs: int, processes: int, accumulation: int) -> None:
    questions, answers = lengths(100)
    order = Order(questions, answers, seed=1, pairs=40)
    step = order.epoch(0)[0][:pairs]
    shares = order.share(step, processes, accumulation)
    assert len(shares) == accumulation
    assert all(len(parts) == processes for parts in shares)
    flat = [part for parts in shares for part in parts]
    assert sorted(np.concatenate(flat)) == sorted(step)
    assert max(map(len, flat)) - min(map(len, flat)) <= 1
    together = questions + answers
    for parts in shares:
        work = [together[part].sum() for part in parts]
        assert max(work) - min(work) <= max((together[part].max() for part in parts if len(part)), default=0)
    longest = [max(together[part].max() for part in parts if len(part)) for parts in shares if any(map(len, parts))]
    assert longest == sorted(longest, reverse=True)


def test_processes_get_equal_work_where_lengths_allow_it() -> None:
    questions, answers = np.arange(1, 17), np.full(16, 10)
    (parts,) = Order(questions, answers, seed=1, pairs=16).share(np.arange(16), 4, 1)
    assert [(questions + answers)[part].sum() for part in parts] == [74] * 4


@pytest.mark.parametrize("processes, accumulation", SPREADS)
@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
@pytest.mark.parametrize("budget", [-1, 24_000])
def test_runs_of_one_global_size_see_the_same_steps(
    processes: int, accumulation: int, strategy: str, budget: int
) -> None:
    questions, answers = lengths(300)
    pairs = [{"input_ids": [5] * q, "labels": [6] * a} for q, a in zip(questions, answers, strict=True)]
    shares = processes * accumulation
    arguments = SimpleNamespace(
        seed=5,
        world_size=processes,
        gradient_accumulation_steps=accumulation,
        train_batch_size=240 // shares,
        train_sampling_strategy=strategy,
    )
    order = training_order(pairs, arguments, budget // shares if budget > 0 else -1)
    size = {"tokens": budget} if budget > 0 else {"pairs": 240}
    whole = Order(questions, answers, seed=5, group_by_length=strategy == "group_by_length", **size)
    samplers = [StepSampler(order, index, processes, accumulation) for index in range(processes)]
    for sampler in samplers:
        sampler.set_epoch(2)
        assert len(list(sampler)) == len(sampler) == accumulation * len(whole)
    passes = [list(chain.from_iterable(parts)) for parts in zip(*samplers, strict=True)]
    steps = [sorted(chain(*passes[i : i + accumulation])) for i in range(0, len(passes), accumulation)]
    assert steps == [sorted(step.tolist()) for step in whole.epoch(2)]


@pytest.mark.parametrize("group_by_length", STRATEGIES)
@pytest.mark.parametrize("shares", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("each", [4000, 9000])
def test_no_share_of_a_step_is_beyond_its_budget(shares: int, each: int, group_by_length: bool) -> None:
    questions, answers = lengths(2000)
    order = Order(questions, answers, seed=1, tokens=shares * each, group_by_length=group_by_length)
    longest = (questions + answers).max()
    for step in order.epoch(0):
        for (part,) in order.share(step, 1, shares):
            padded = padded_tokens(questions, answers, part)
            # Where a share has fewer pairs than there are shares, one more may be in it.
            assert padded <= each or (each < shares * longest and padded <= each + longest)
    # It is used: hardly more steps than whole tokens fill.
    if group_by_length:
        assert len(order) < 1.35 * (questions + answers).sum() / (shares * each) + 8


def test_a_budget_is_kept_exactly_where_a_share_has_room_for_as_many_pairs_as_there_are_shares() -> None:
    for length in (1, 5, 7, 30, 64):
        questions = answers = np.full(3000, length)
        for shares in (1, 2, 3, 4, 6, 8, 12, 16):
            each = 2 * length * shares + 3
            order = Order(questions, answers, seed=1, tokens=shares * each, group_by_length=True)
            for step in order.epoch(0):
                parts = [part for (part,) in order.share(step, 1, shares)]
                assert max(padded_tokens(questions, answers, part) for part in parts) <= each


def test_a_pair_beyond_the_budget_makes_a_step_by_itself() -> None:
    questions, answers = np.array([5] * 50 + [90]), np.array([5] * 50 + [60])
    order = Order(questions, answers, seed=1, tokens=100)
    assert {len(step) for step in order.epoch(0)} == {1}
    order = Order(np.array([5, 90, 5]), np.array([5, 60, 5]), seed=1, tokens=100, group_by_length=True)
    assert [step.tolist() for step in order.epoch(0) if 1 in step] == [[1]]


@pytest.mark.parametrize("batch", [16, 32, 64])
def test_grouping_by_length_pads_less_than_transformers_does(batch: int) -> None:
    questions, answers = lengths(5000)

    def share_of_real_tokens(steps: list[np.ndarray]) -> float:
        return (questions + answers).sum() / sum(padded_tokens(questions, answers, step) for step in steps)

    indices = np.array(
        get_length_grouped_indices((questions + answers).tolist(), batch, generator=torch.Generator().manual_seed(1))
    )
    theirs = share_of_real_tokens(np.split(indices, range(batch, len(indices), batch)))
    ours = share_of_real_tokens(Order(questions, answers, seed=1, pairs=batch, group_by_length=True).epoch(0))
    unsorted = share_of_real_tokens(Order(questions, answers, seed=1, pairs=batch).epoch(0))
    assert unsorted < theirs < ours - 0.05


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pairs_of_one_length_stay_in_one_bucket(size: dict[str, int]) -> None:
    equal = np.full(500, 20)
    grouped, plain = (Order(equal, equal, seed=1, group_by_length=group, **size) for group in (True, False))
    for left, right in zip(grouped.epoch(0), plain.epoch(0), strict=True):
        assert left.tolist() == right.tolist()


def test_the_largest_step_comes_first() -> None:
    questions, answers = lengths(1000)
    order = Order(questions, answers, seed=1, pairs=16, group_by_length=True)
    for epoch in range(3):
        sizes = [padded_tokens(questions, answers, step) for step in order.epoch(epoch)]
        assert sizes[0] == max(sizes)
        assert sizes != sorted(sizes, reverse=True)


def test_a_budget_below_the_longest_pair_is_refused(tmp_path: Path) -> None:
    arguments = Seq2SeqTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    pairs = [{"input_ids": [5] * 9, "labels": [6] * 4}, {"input_ids": [5] * 5, "labels": [6] * 11}]
    assert len(training_order(pairs, arguments, 16)) == 2
    with pytest.raises(UsageError, match="max_tokens_per_batch is 15, but the longest pair has 16 tokens"):
        training_order(pairs, arguments, 15)
    # 16 + 8 and 8 + 16 once padded to a multiple of 8.
    with pytest.raises(UsageError, match="has 24 tokens"):
        training_order(pairs, arguments, 23, pad_to_multiple_of=8)


def test_lengths_come_from_a_dataset_as_from_a_list() -> None:
    questions, answers = lengths(3000)
    pairs = [{"input_ids": [5] * q, "labels": [6] * a} for q, a in zip(questions, answers, strict=True)]
    dataset = Dataset.from_list(pairs)
    for got in (pair_lengths(pairs), pair_lengths(dataset)):
        assert [lengths.tolist() for lengths in got] == [questions.tolist(), answers.tolist()]
    chosen = [7, 2999, 0]
    assert [lengths.tolist() for lengths in pair_lengths(dataset.select(chosen))] == [
        questions[chosen].tolist(),
        answers[chosen].tolist(),
    ]


def test_skipped_steps_are_not_read() -> None:
    class Pairs(torch.utils.data.Dataset[int]):
        read: list[int] = []

        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> int:
            self.read.append(index)
            return index

    sampler = StepSampler(Order(*lengths(100), seed=1, pairs=12), accumulation=3)
    loader = prepare_data_loader(DataLoader(Pairs(), batch_sampler=sampler, collate_fn=list), num_processes=1)
    loader.set_epoch(2)
    expected = [batch for batch in sampler]
    assert list(loader) == expected
    Pairs.read.clear()
    assert list(skip_first_batches(loader, 21)) == expected[21:]
    assert Pairs.read == list(chain.from_iterable(expected[21:]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("torch_compile", [False, True])
def test_a_filler_takes_part_and_adds_nothing(smoothing: float, torch_compile: bool, tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    model = small_model(tokenizer)
    trainer = WenzhenTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path),
            use_cpu=True,
            gradient_accumulation_steps=3,
            per_device_train_batch_size=2,
            label_smoothing_factor=smoothing,
        ),
        train_dataset=[{"input_ids": [5, 6, 3], "labels": [7, 8, 9, 3]}, {"input_ids": [6, 3], "labels": [7, 3]}],
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=4),
    )
    # What a compiled model computes, without the time to compile it.
    trainer.skips_padding = not torch_compile
    trainer.label_smoother = LabelSmoother(smoothing) if torch_compile and smoothing else None
    filler, *batches = list(trainer.get_train_dataloader())
    assert [len(batch["labels"]) for batch in batches] == [1, 1]
    assert filler["labels"].eq(-100).all()
    model.train()
    assert trainer.compute_loss(model, batches[0], num_items_in_batch=torch.tensor(6)).item() > 0
    loss = trainer.compute_loss(model, filler, num_items_in_batch=torch.tensor(6))
    loss.backward()
    assert loss.item() == 0
    # A gradient of zeros, not none: other processes wait for it.
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


def test_measuring_takes_every_pair_once_and_like_lengths_together(tmp_path: Path) -> None:
    questions, answers = lengths(195)
    pairs = [{"input_ids": [5] * q, "labels": [6] * a} for q, a in zip(questions, answers, strict=True)]
    trainer = WenzhenTrainer(
        model=small_model(small_tokenizer()),
        args=Seq2SeqTrainingArguments(output_dir=str(tmp_path), use_cpu=True, per_device_eval_batch_size=8),
        train_dataset=pairs,
        data_collator=list,
    )
    batches = [np.array(batch) for batch in np.split(np.array(trainer._get_eval_sampler(pairs)), range(8, 195, 8))]
    assert sorted(np.concatenate(batches)) == list(range(195))
    unsorted = np.split(np.arange(195), range(8, 195, 8))
    padded, before = (sum(padded_tokens(questions, answers, batch) for batch in way) for way in (batches, unsorted))
    assert padded < 0.85 * before
    # The batches are the steps of the order, the one that is not full the last.
    steps = Order(questions, answers, seed=42, pairs=8, group_by_length=True).epoch(0)
    assert padded == sum(padded_tokens(questions, answers, step) for step in steps)
