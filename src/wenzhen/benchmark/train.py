"""How fast training steps are: ours against those of MarianMTModel, of the same shape with the same first weights."""

import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from wenzhen.benchmark.contestants import DEFAULTS, EQUAL, NAMES, OURS, SAME_BATCHES, Remote, Run, Setup
from wenzhen.benchmark.machine import describe_machine, package_versions
from wenzhen.benchmark.pairs import Pair, Pool
from wenzhen.benchmark.peer import check_expressible
from wenzhen.benchmark.steps import grouped_epoch, our_epoch, padded_tokens, random_epoch, spread_steps
from wenzhen.benchmark.subject import describe_shape
from wenzhen.benchmark.timing import alternate, ratio, spread
from wenzhen.benchmark.work import matrix_product_rate, useful_flops
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import Training
from wenzhen.training.arguments import supports_bf16

# How each contestant orders an epoch.
EPOCHS = {OURS: our_epoch, DEFAULTS: random_epoch, EQUAL: grouped_epoch}
CHECKPOINTING = "ours_with_activation_checkpointing"
SETTINGS = ("batch_size", "steps", "repeats", "device", "torch_compile", "activation_checkpointing")
# Pairs in the batch that all contestants begin with to see whether they compute the same.
COMPARED = 8
# Lengths are padded to multiples of this for a compiler, to which every length is another program.
COMPILED_MULTIPLE = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and how often.

    Args:
        config: the model's shape.
        batch_size: pairs in a step.
        steps: in a repeat.
        repeats: rounds; each has other steps of the epoch.
        device: `cpu` or `cuda`.
        dtype: `float32`, `bfloat16`, or `auto`: bfloat16 where the machine has it. Not of the defaults, which are in
            float32.
        torch_compile: compile the networks, that of the defaults excepted.
        activation_checkpointing: recompute activations, the defaults excepted.
        profile: look where the time of our steps goes.
    """

    config: WenzhenConfig = field(default_factory=WenzhenConfig)
    batch_size: int = 32
    steps: int = 6
    repeats: int = 3
    device: str = "cpu"
    dtype: str = "auto"
    torch_compile: bool = False
    activation_checkpointing: bool = False
    profile: bool = False

    @property
    def training(self) -> Training:
        """The settings of the thesis' recipe that bear on speed, those of the plan in their places."""
        return Training(
            num_train_epochs=1,
            per_device_train_batch_size=self.batch_size,
            train_sampling_strategy="group_by_length",
            dataloader_num_workers=0 if self.device == "cpu" else 2,
            bf16=self.compute_dtype == "bfloat16",
            torch_compile=self.torch_compile,
            pad_to_multiple_of=COMPILED_MULTIPLE if self.torch_compile else 1,
            activation_checkpointing=self.activation_checkpointing,
            use_cpu=self.device == "cpu",
        )

    @property
    def compute_dtype(self) -> str:
        """`dtype`, decided."""
        if self.dtype != "auto":
            return self.dtype
        return "bfloat16" if supports_bf16(self.device == "cpu") else "float32"


def benchmark_training(plan: Plan, pool: Pool) -> dict[str, Any]:
    """Time steps of all contestants in turn.

    All go through an epoch of the same pairs, each in its own order, of which steps are timed that are spread evenly
    over the epoch's short and long ones. A few pairs taken in another way would make batches that no epoch has.

    Args:
        plan: what to measure.
        pool: the pairs of the epoch.

    Returns:
        `ours` and an entry for each peer, see [`describe`]; `ratio` of our pairs per second to each peer's, repeat by
        repeat; `matrix_products`, the operations per second of nothing else, by dtype; `peak_memory_mb`, see
        [`measure_memory`]; `profile`, the shares of our time by [`time_by_group`], or None;
        `model`, `settings`, `pairs`, `machine` and `versions`.

    Raises:
        UsageError: the model has no peer, or there are too few pairs.
        RunError: a contestant failed.
    """
    check_expressible(plan.config)
    # Before the load is our own.
    machine, versions = describe_machine(), package_versions()
    epochs = {key: order(pool, plan.batch_size) for key, order in EPOCHS.items()}
    epochs[SAME_BATCHES] = epochs[OURS]
    steps = {
        key: spread_steps(pool, epoch, plan.batch_size, plan.repeats, plan.steps) for key, epoch in epochs.items()
    }
    largest = epochs[OURS][0]
    with tempfile.TemporaryDirectory() as folder:
        with Race(plan, pool, folder) as race:
            first_steps = {key: race.ask(key, "first_step", largest[:COMPARED]) for key in NAMES}
            race.warm_up(steps)
            runs, products = race.run(steps)
            profile = race.ask(OURS, "profile", np.concatenate(steps[OURS][0])) if plan.profile else None
        memory = measure_memory(plan, pool.take(largest), folder)
    limit = max(spread(own)["median"] for own in products.values())
    speeds = {key: [pairs_per_second(pool, *one) for one in zip(steps[key], runs[key], strict=True)] for key in NAMES}
    entries = {
        key: {
            **describe(plan.config, pool, steps[key], runs[key], limit),
            "first_step": {"loss": first_steps[key].first_loss, "grad_norm": first_steps[key].first_grad_norm},
        }
        for key in NAMES
    }
    return {
        "model": {**describe_shape(plan.config), "parameters": count_parameters(plan.config)},
        "settings": {name: getattr(plan, name) for name in SETTINGS} | {"dtype": plan.compute_dtype},
        "pairs": describe_pairs(pool),
        **entries,
        "ratio": {key: ratio(speeds[OURS], own) for key, own in speeds.items() if key != OURS},
        "matrix_products": {dtype: spread(own) for dtype, own in products.items()},
        "peak_memory_mb": memory,
        "profile": profile,
        "machine": machine,
        "versions": versions,
    }


class Race:
    """The contestants, each waiting in its process; leaving the context ends them."""

    def __init__(self, plan: Plan, pool: Pool, folder: str) -> None:
        self.plan, self.pool, self.folder = plan, pool, folder
        self.stack = ExitStack()
        # Each contestant's first step, warming up and repeats; the products; the profile.
        asked = len(NAMES) * (2 + plan.repeats) + plan.repeats + plan.profile
        self.progress = tqdm(total=asked, disable=None)

    def __enter__(self) -> "Race":
        self.stack.enter_context(self.progress)
        self.contestants = {key: self.start(key, self.plan.training) for key in NAMES}
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def start(self, key: str, training: Training) -> Remote:
        """Start a contestant."""
        return self.stack.enter_context(closing(Remote(Setup(key, self.plan.config, training, self.folder))))

    def ask(self, key: str, method: str, indices: np.ndarray) -> Any:
        """Call a contestant's method with pairs, and show it."""
        self.progress.set_description(f"{NAMES[key]}: {method.replace('_', ' ')}")
        result = self.contestants[key].call(method, self.pool.take(indices))
        self.progress.update()
        return result

    def warm_up(self, steps: dict[str, list[list[np.ndarray]]]) -> None:
        """Let everything happen once that happens but once.

        On a CPU a step will do. On a GPU all shapes must have been there for its memory to be laid out, and with a
        compiler all must be compiled.
        """
        one = self.plan.device == "cpu" and not self.plan.torch_compile
        for key in NAMES:
            chosen = steps[key][0][:1] if one else [step for repeat in steps[key] for step in repeat]
            self.ask(key, "train", np.concatenate(chosen))

    def run(self, steps: dict[str, list[list[np.ndarray]]]) -> tuple[dict[str, list[Run]], dict[str, list[float]]]:
        """Let all train in turn.

        Returns:
            The runs of each contestant, and by dtype the rates of matrix products that were measured in between.
        """
        runs: dict[str, list[Run]] = {key: [] for key in NAMES}
        rates: dict[str, list[float]] = {dtype: [] for dtype in ("float32", self.plan.compute_dtype)}

        def train(key: str, repeat: int) -> None:
            runs[key].append(self.ask(key, "train", np.concatenate(steps[key][repeat])))

        def multiply(_: int) -> None:
            for dtype, own in rates.items():
                own.append(matrix_product_rate(self.plan.config, self.plan.device, dtype))
            self.progress.update()

        alternate([*(partial(train, key) for key in NAMES), multiply], self.plan.repeats)
        return runs, rates


def measure_memory(plan: Plan, pairs: list[Pair], folder: str) -> dict[str, float]:
    """Let contestants train on one batch, each in a fresh process.

    Returns:
        The peak in MB of us, without and with activation checkpointing, of the defaults, and of MarianMTModel with our
        settings; see [`Contestant.memory_mb`].
    """
    without, with_it = (replace(plan.training, activation_checkpointing=value) for value in (False, True))
    memory = {}
    for name, key, training in (
        (OURS, OURS, without),
        (CHECKPOINTING, OURS, with_it),
        (DEFAULTS, DEFAULTS, without),
        (EQUAL, EQUAL, without),
    ):
        with closing(Remote(Setup(key, plan.config, training, folder))) as contestant:
            memory[name] = contestant.call("memory_mb", pairs)
    return memory


def pairs_per_second(pool: Pool, steps: list[np.ndarray], run: Run) -> float:
    """Return real tokens per second, over the tokens of the mean pair: that of a few steps is not quite as long."""
    lengths = pool.question_lengths + pool.answer_lengths
    return float(lengths[np.concatenate(steps)].sum() / run.seconds / lengths.mean())


def describe(
    config: WenzhenConfig, pool: Pool, steps: list[list[np.ndarray]], runs: list[Run], limit: float
) -> dict[str, Any]:
    """Put a contestant's runs into figures.

    Args:
        config: the model's shape.
        pool: the pairs of the epoch.
        steps: which of them each repeat had, step by step.
        runs: what each repeat took.
        limit: the operations per second that the machine can do.

    Returns:
        `pairs_per_second` (the median; `low`, `high`); medians of `real_tokens_per_second` (both sides, padding not
        counted), `gflops` (the operations per second of [`useful_flops`], in thousands of millions) and
        `machine_share` (these in the limit); `real_share` of real tokens in the batches; `loss`, the mean of the last
        repeat's steps.
    """
    rates = spread(pairs_per_second(pool, *one) for one in zip(steps, runs, strict=True))
    tokens, work = [], []
    for repeat in steps:
        lengths = [(int(pool.question_lengths[i]), int(pool.answer_lengths[i])) for i in np.concatenate(repeat)]
        tokens.append(sum(map(sum, lengths)))
        work.append(sum(useful_flops(config, *pair) for pair in lengths))
    gflops = spread(done / run.seconds / 1e9 for done, run in zip(work, runs, strict=True))["median"]
    return {
        "pairs_per_second": rates.pop("median"),
        **rates,
        "real_tokens_per_second": spread(t / run.seconds for t, run in zip(tokens, runs, strict=True))["median"],
        "real_share": sum(tokens) / sum(padded_tokens(pool, step) for repeat in steps for step in repeat),
        "gflops": gflops,
        "machine_share": gflops * 1e9 / limit,
        "loss": runs[-1].loss,
    }


def describe_pairs(pool: Pool) -> dict[str, Any]:
    """Return the pairs' `origin` and `count`, and `question_tokens` and `answer_tokens`: `mean`, `median`, `p99`."""

    def describe_lengths(lengths: np.ndarray) -> dict[str, float]:
        median, p99 = np.quantile(lengths, (0.5, 0.99)).tolist()
        return {"mean": float(lengths.mean()), "median": median, "p99": p99}

    return {
        "origin": pool.origin,
        "count": len(pool.question_lengths),
        "question_tokens": describe_lengths(pool.question_lengths),
        "answer_tokens": describe_lengths(pool.answer_lengths),
    }


def count_parameters(config: WenzhenConfig) -> int:
    """Count the parameters of a model without making one."""
    with torch.device("meta"):
        return WenzhenForConditionalGeneration(config).num_parameters()
