"""The benchmark of training, through its command and by its parts."""

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import DeviceType
from torch.utils.flop_counter import FlopCounterMode

from helpers import ROOT
from wenzhen.benchmark import train
from wenzhen.benchmark.contestants import DEFAULTS, EQUAL, NAMES, OURS, SAME_BATCHES, Contestant, Run, Setup
from wenzhen.benchmark.pairs import ANSWER_LENGTHS, QUESTION_LENGTHS, Pool, load_pool, random_pool
from wenzhen.benchmark.profile import NAMES as GROUPS
from wenzhen.benchmark.profile import group_of, time_by_group
from wenzhen.benchmark.steps import grouped_epoch, our_epoch, padded_tokens, random_epoch, spread_steps
from wenzhen.benchmark.table import training_table
from wenzhen.benchmark.train import Plan, describe, pairs_per_second
from wenzhen.benchmark.work import useful_flops
from wenzhen.cli import main
from wenzhen.errors import RunError, UsageError, run
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import load_recipe

ABSENT = ("datasets", "pyarrow", "pandas", "evaluate", "gradio", "ctranslate2")
# In every process, as if the packages had never been installed.
HIDING = f"""
from importlib.machinery import PathFinder
find = PathFinder.find_spec
absent = {ABSENT!r}
hide = lambda name, *rest: None if name.partition(".")[0] in absent else find(name, *rest)
PathFinder.find_spec = staticmethod(hide)
"""
PEERS = [DEFAULTS, EQUAL, SAME_BATCHES]
SHAPE = {"d_model": 16, "d_ff": 24, "attention_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
TINY = WenzhenConfig(vocab_size=60, max_position_embeddings=40, **SHAPE)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command prints for a tiny model, where the data libraries are missing."""
    folder = tmp_path_factory.mktemp("hiding")
    (folder / "sitecustomize.py").write_text(HIDING, encoding="utf-8")
    shape = ["--d-model", "16", "--layers", "1", "--batch-size", "4", "--steps", "2", "--repeats", "2"]
    how = ["--device", "cpu", "--dtype", "float32", "--profile", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "wenzhen", "benchmark", "train", *shape, *how],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_says_how_fast_and_compared_with_what(result: dict[str, Any]) -> None:
    assert result["settings"] == {
        "batch_size": 4,
        "steps": 2,
        "repeats": 2,
        "device": "cpu",
        "dtype": "float32",
        "torch_compile": False,
        "activation_checkpointing": False,
    }
    for key in NAMES:
        entry = result[key]
        assert 0 < entry["low"] <= entry["pairs_per_second"] <= entry["high"]
        assert 0 < entry["real_share"] <= 1
        limit = max(rate["median"] for rate in result["matrix_products"].values())
        assert entry["machine_share"] == pytest.approx(entry["gflops"] * 1e9 / limit)
    assert list(result["ratio"]) == PEERS
    for key, ratio in result["ratio"].items():
        assert ratio["low"] <= ratio["median"] <= ratio["high"]
        assert result[OURS]["low"] / result[key]["high"] <= ratio["low"]
        assert ratio["high"] <= result[OURS]["high"] / result[key]["low"]
    assert result[SAME_BATCHES]["real_share"] == result[OURS]["real_share"] > result[DEFAULTS]["real_share"]
    assert result["machine"].keys() >= {"cpu", "cores", "memory_gb", "load", "accelerator"}
    assert result["versions"]["torch"] == torch.__version__
    assert result["peak_memory_mb"].keys() == {OURS, "ours_with_activation_checkpointing", DEFAULTS, EQUAL}
    assert min(result["peak_memory_mb"].values()) > 0
    assert sum(result["profile"].values()) == pytest.approx(1, abs=0.02)


def test_all_contestants_compute_the_same(result: dict[str, Any]) -> None:
    """The sines of positions and the order of sums are all that differs in float32."""
    ours = result[OURS]["first_step"]
    for key in PEERS:
        assert result[key]["first_step"]["loss"] == pytest.approx(ours["loss"], rel=1e-5)
        assert result[key]["first_step"]["grad_norm"] == pytest.approx(ours["grad_norm"], rel=1e-3)
        assert result[key]["loss"] == pytest.approx(result[OURS]["loss"], rel=0.1)


def test_the_table_shows_what_the_json_holds(result: dict[str, Any]) -> None:
    lines = training_table(result).splitlines()
    for key, name in NAMES.items():
        speed, losses = (line for line in lines if line.startswith(f"  {name}  "))
        entry = result[key]
        assert f" {entry['pairs_per_second']:,.1f}  ({entry['low']:,.1f}-{entry['high']:,.1f}) " in speed
        assert f" {entry['real_tokens_per_second']:,.0f} " in speed
        if key != OURS:
            ratio = result["ratio"][key]
            assert speed.endswith(f" {ratio['median']:.2f}  ({ratio['low']:.2f}-{ratio['high']:.2f})")
        assert losses.split()[-3:] == [f"{value:.4f}" for value in (*entry["first_step"].values(), entry["loss"])]
    assert any(f"wenzhen {result['peak_memory_mb'][OURS]:,.0f}; " in line for line in lines)
    assert any("where our time goes" in line for line in lines)


@pytest.mark.parametrize(("source", "target"), [(1, 1), (7, 11)])
def test_useful_work_is_what_an_unpadded_pair_takes(source: int, target: int) -> None:
    """PyTorch counts the products of a step; of the decoder's own attention it counts later keys too."""
    model = WenzhenForConditionalGeneration(TINY).train()
    model.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter:
        model(input_ids=torch.full((1, source), 5), labels=torch.full((1, target), 5)).loss.backward()
    later = target**2 - target * (target + 1) // 2
    assert useful_flops(TINY, source, target) == counter.get_total_flops() - TINY.decoder_layers * 12 * 16 * later


def test_pairs_are_as_long_as_real_ones_and_stay_the_same() -> None:
    pool = random_pool(WenzhenConfig(), 50_000)
    for lengths, quantiles in ((pool.question_lengths, QUESTION_LENGTHS), (pool.answer_lengths, ANSWER_LENGTHS)):
        for share, index in ((0.05, 2), (0.5, 5), (0.95, 8), (0.99, 9)):
            assert np.quantile(lengths, share) == pytest.approx(quantiles[index], rel=0.05)
    assert pool.question_lengths.mean() == pytest.approx(59.4, rel=0.02)
    assert pool.answer_lengths.mean() == pytest.approx(156.2, rel=0.02)

    chosen = np.array([40_000, 3, 3])
    taken = pool.take(chosen)
    assert taken[1] == taken[2] == random_pool(WenzhenConfig(), 50_000).take(chosen[1:])[0]
    for index, pair in zip(chosen, taken, strict=True):
        assert len(pair["input_ids"]) == pool.question_lengths[index]
        assert len(pair["labels"]) == pool.answer_lengths[index]
        for text in pair.values():
            assert text[-1] == 3
            assert all(4 <= token < 8000 for token in text[:-1])
    counts = Counter(token for pair in pool.take(np.arange(200)) for token in pair["labels"][:-1])
    assert counts[4] > counts[14] > counts[54] > counts[404] > 0
    assert random_pool(TINY, 500).answer_lengths.max() == 40


def test_every_order_is_an_epoch_and_ours_pads_least() -> None:
    pool = random_pool(WenzhenConfig(), 6410)
    shares = []
    for epoch in (random_epoch, grouped_epoch, our_epoch):
        steps = epoch(pool, 32)
        assert sorted(np.concatenate(steps)) == list(range(6410))
        assert sorted(map(len, steps)) == [10] + [32] * 200
        shares.append((pool.question_lengths + pool.answer_lengths).sum() / sum(padded_tokens(pool, s) for s in steps))
    assert shares[0] < 0.65 < shares[1] < 0.8 < shares[2]


def test_timed_steps_have_the_sizes_of_the_epoch() -> None:
    """Of 30 steps, each larger than the one before, two repeats get the middles of ten equal parts in turn."""
    lengths = np.repeat(np.arange(1, 31), 2)
    pool = Pool("ours", lengths, lengths, lambda indices: [])
    steps = np.arange(60).reshape(30, 2)[np.random.default_rng(0).permutation(30)]
    epoch = [*steps, np.array([59])]
    chosen = spread_steps(pool, epoch, 2, repeats=2, count=5)
    assert [sorted(padded_tokens(pool, step) // 4 for step in repeat) for repeat in chosen] == [
        [2, 8, 14, 20, 26],
        [5, 11, 17, 23, 29],
    ]
    with pytest.raises(UsageError, match="has 30 steps of 2 pairs, but 4 x 8 are to be timed; lower"):
        spread_steps(pool, epoch, 2, repeats=4, count=8)


def test_speeds_are_those_of_the_mean_pair() -> None:
    """The pairs that were timed have 20 tokens, the mean has 10: of those, twice as many would have been done."""
    pool = Pool("ours", np.array([4, 4, 0, 0]), np.array([16, 16, 0, 0]), lambda indices: [])
    steps, timed = [np.array([0]), np.array([1])], Run(4.0, 1.0, None, None)
    assert pairs_per_second(pool, steps, timed) == 1.0  # of its own pairs, 0.5
    figures = describe(TINY, pool, [steps, steps], [timed, Run(2.0, 3.0, None, None)], limit=1e9)
    assert (figures["low"], figures["pairs_per_second"], figures["high"]) == (1.0, 1.5, 2.0)
    assert figures["real_tokens_per_second"] == 15.0
    assert figures["real_share"] == 1.0
    assert figures["gflops"] == pytest.approx(useful_flops(TINY, 4, 16) * (2 / 4 + 2 / 2) / 2 / 1e9)
    assert figures["machine_share"] == figures["gflops"]
    assert figures["loss"] == 3.0


def test_our_settings_are_the_thesis_recipes() -> None:
    ours, recipe = (
        vars(training)
        for training in (Plan(dtype="auto").training, load_recipe(str(ROOT / "recipes/thesis-bs32.yaml")).training)
    )
    free = {"num_train_epochs", "lr_scheduler_type", "warmup_steps", "bf16", "use_cpu", "logging_steps", "eval_steps"}
    assert {name for name in ours if ours[name] != recipe[name]} <= free
    compiled = Plan(torch_compile=True, activation_checkpointing=True, dtype="bfloat16", device="cuda").training
    assert (compiled.torch_compile, compiled.activation_checkpointing, compiled.bf16) == (True, True, True)
    assert compiled.pad_to_multiple_of == 64
    assert not compiled.use_cpu


@pytest.mark.parametrize("key", NAMES)
def test_contestants_take_the_pairs_in_the_order_given(key: str, tmp_path: Path) -> None:
    training = dataclasses.replace(Plan(batch_size=3, dtype="float32").training, dataloader_num_workers=0)
    contestant = Contestant(Setup(key, TINY, training, str(tmp_path)))
    assert (type(contestant.trainer).__name__ == "WenzhenTrainer") == (key == OURS)
    seen: list[list[tuple[int, ...]]] = []

    def record(module: object, args: object, batch: dict[str, torch.Tensor]) -> None:
        seen.append(sorted(tuple(row[row != -100].tolist()) for row in batch["labels"]))

    contestant.trainer.model.register_forward_pre_hook(record, with_kwargs=True)
    pairs = random_pool(TINY, 12).take(np.arange(12))
    done = contestant.train(pairs)
    answers = [tuple(pair["labels"]) for pair in pairs]
    assert seen == [sorted(answers[start : start + 3]) for start in range(0, 12, 3)]
    assert done.seconds > 0
    optimizer = contestant.trainer.optimizer.param_groups[0]
    assert optimizer["betas"] == ((0.9, 0.999) if key == DEFAULTS else (0.9, 0.95))
    assert optimizer["fused"]


def test_a_contestant_that_fails_or_dies_is_named(tmp_path: Path) -> None:
    contestant = train.Remote(Setup(EQUAL, TINY, Plan(config=TINY).training, str(tmp_path)))
    try:
        with pytest.raises(RunError, match=r"^MarianMTModel, our settings could not be trained: .*nothing"):
            contestant.call("nothing")
        contestant.process.kill()
        with pytest.raises(RunError, match=r"settings died \(exit code -9\), probably for lack of memory; lower"):
            contestant.call("first_step", [])
    finally:
        contestant.close()


@pytest.mark.parametrize(
    ("operation", "group"),
    [
        ("aten::addmm", "matrix products"),
        ("aten::mm", "matrix products"),
        ("mkldnn::_linear_pointwise", "matrix products"),
        ("aten::bmm", "attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention"),
        ("aten::_softmax_backward_data", "attention"),
        ("aten::_log_softmax", "loss"),
        ("aten::native_layer_norm_backward", "normalization"),
        ("aten::native_dropout", "dropout"),
        ("aten::random_", "dropout"),
        ("aten::_fused_adamw_", "optimizer"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("aten::_foreach_norm", "optimizer"),
        ("aten::copy_", "copies and casts"),
        ("aten::index_select", "copies and casts"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data"),
        ("aten::add_", "other"),
        ("aten::embedding_dense_backward", "other"),
        ("aten::summation", "other"),
    ],
)
def test_operations_are_grouped_by_name(operation: str, group: str) -> None:
    assert group_of(operation) == group


@pytest.mark.parametrize(("device", "expected"), [("cpu", [0.5, 0.25, 0.25]), ("cuda", [0.125, 0.0, 0.875])])
def test_own_times_are_shares_of_all_time(device: str, expected: list[float]) -> None:
    names = ("key", "device_type", "self_cpu_time_total", "self_device_time_total")
    events = [
        SimpleNamespace(**dict(zip(names, values, strict=True)))
        for values in (
            ("aten::mm", DeviceType.CPU, 1e6, 25e4),
            ("aten::add", DeviceType.CPU, 5e5, 0.0),
            # A kernel, whose time its operation has already.
            ("gemm", DeviceType.CUDA, 0.0, 25e4),
        )
    ]
    shares = time_by_group(events, device, 2.0)
    assert list(shares) == list(GROUPS)
    assert [shares[name] for name in ("matrix products", "other", "between operations")] == expected


def test_a_users_own_pairs_are_taken(dataset: Path, tokenizer_folder: Path) -> None:
    pool, vocabulary = load_pool(dataset, tokenizer_folder)
    assert pool.origin == str(dataset)
    assert vocabulary > 100
    (pair,) = pool.take(np.array([2]))
    assert len(pair["input_ids"]) == pool.question_lengths[2]
    assert len(pair["labels"]) == pool.answer_lengths[2]
    assert pair["labels"][-1] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--batch-size", "-2"], "--batch-size must be at least 1, got -2"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--layers", "0"], "--layers must be at least 1"),
        (["--d-model", "20"], "no model has this shape: `d_model` must be a multiple of `attention_heads`"),
        (["--dataset", "nowhere"], "--dataset and --tokenizer go together"),
        (["--dataset", "nowhere", "--tokenizer", "nowhere"], "nowhere"),
        (["--batch-size", "100000"], "has 5 steps of 100000 pairs, but 3 x 6 are to be timed"),
    ],
)
def test_wrong_requests_get_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(main, ["benchmark", "train", "--device", "cpu", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
