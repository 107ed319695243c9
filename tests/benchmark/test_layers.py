"""Table 4.2 as measured: its counts by hand and by PyTorch's own counters, its paths by formula, and its command."""

import json
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from wenzhen.benchmark.layers import costs, measure
from wenzhen.benchmark.layers.costs import fit, kept_bytes, peak_bytes, useful_range
from wenzhen.benchmark.layers.drawing import draw
from wenzhen.benchmark.layers.kinds import KINDS, Kind, Size, attention_alone, output, self_attention
from wenzhen.benchmark.layers.measure import Plan, check_memory
from wenzhen.benchmark.layers.paths import (
    NETWORKS,
    SIZE,
    CausalConvolution,
    DependencyCounter,
    UnrolledRecurrence,
    follow,
    reached,
)
from wenzhen.benchmark.layers.table import layers_table
from wenzhen.cli import main
from wenzhen.errors import UsageError, run
from wenzhen.models.recurrent.modeling_recurrent import CELLS

BATCH = 2
SMALL = Size(n=24, d=128, k=5)


class Function(nn.Module):
    """A layer made of a function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.forward = function


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([10, 50, 90, 100, 70, 30], [90, 100, 70]),
        ([90, 10, 100, 80], [100, 80]),
        ([80, 100, 10, 90], [80, 100]),
        ([100, 99], [100, 99]),
        ([1], [1]),
    ],
)
def test_sizes_around_the_best_rate_are_taken(rates: list[float], expected: list[float]) -> None:
    assert rates[useful_range(rates)] == expected


def test_exponents_are_those_of_power_laws() -> None:
    sizes = [1, 64, 128, 256, 512, 7]
    found = fit(sizes, [3 * size**1.7 for size in sizes], [5 * size**2 for size in sizes], slice(1, 5))
    assert (found.exponent, found.counted) == pytest.approx((1.7, 2.0))
    assert (found.first, found.last) == (64, 512)
    assert fit(sizes, sizes, sizes, slice(0, 2)) is None


@pytest.mark.parametrize("name", KINDS)
def test_operations_are_those_that_pytorch_counts(name: str) -> None:
    kind = KINDS[name]
    layer = kind.build(SMALL)
    # PyTorch counts neither what CPUs have of their own for attention nor for an LSTM.
    if name in CELLS:
        layer = UnrolledRecurrence(name, layer)
    elif kind.family == "attention":
        layer = {"self_attention": self_attention}.get(name, attention_alone)(SMALL, "eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        result = output(layer, torch.randn(BATCH, SMALL.n, kind.inputs * SMALL.d))
    assert result.shape == (BATCH, SMALL.n, SMALL.d)
    assert counter.get_total_flops() == BATCH * kind.operations(SMALL)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        # Input, queries, keys, values, output, and one number for each query and head.
        ("self_attention", 5 * SMALL.n * SMALL.d + SMALL.n * SMALL.d // 64),
        ("attention", 4 * SMALL.n * SMALL.d + SMALL.n * SMALL.d // 64),
        # Queries, keys, values, and a weight for each pair and head.
        ("written_out", 3 * SMALL.n * SMALL.d + SMALL.n**2 * SMALL.d // 64),
        # Input, and what the gate takes.
        ("convolution", 3 * SMALL.n * SMALL.d),
        # Input, states and the first state.
        ("rnn", 2 * SMALL.n * SMALL.d + SMALL.d),
    ],
)
def test_bytes_kept_are_those_of_the_activations(name: str, numbers: int) -> None:
    assert kept_bytes(KINDS[name], SMALL, BATCH) == pytest.approx(4 * BATCH * numbers, rel=0.001)


def test_memory_of_a_matrix_product_by_hand() -> None:
    linear = Kind("", "", lambda size: nn.Linear(size.d, size.d, bias=False), lambda _: 1, lambda _: 1, {})
    tokens = BATCH * SMALL.n * SMALL.d
    # The input is kept; output and the gradients of input and weight are there together in the end.
    assert kept_bytes(linear, SMALL, BATCH) == 4 * tokens
    assert peak_bytes(linear, SMALL, BATCH) == 4 * (2 * tokens + SMALL.d**2)


def test_dependent_operations_by_hand() -> None:
    inputs = torch.randn(4, 3)
    with DependencyCounter() as counter:
        one = inputs + 1
        side = inputs * 2
        two = torch.tanh(one).t()
        three = torch.mm(two, side)
        parts = three.chunk(3)
        joined = torch.cat([parts[0], inputs[:1]])
    found = [counter.operations_before(tensor) for tensor in (inputs, one, side, two, three, parts[2], joined)]
    assert found == [0, 1, 1, 2, 3, 3, 4]


def test_a_change_reaches_what_reads_it() -> None:
    changed = torch.tensor([False, True, False, False])
    assert reached(Function(lambda x: x.roll(1, dims=1)), changed).tolist() == [False, False, True, False]
    assert reached(Function(lambda x: x.cumsum(1)), changed).tolist() == [False, True, True, True]
    assert reached(Function(torch.zeros_like), changed).tolist() == [False] * 4


@pytest.mark.parametrize("cell", CELLS)
def test_unrolled_layers_compute_what_pytorch_computes(cell: str) -> None:
    torch.manual_seed(0)
    layer = CELLS[cell][0](6, 6, batch_first=True).double()
    inputs = torch.randn(3, 9, 6, dtype=torch.float64)
    torch.testing.assert_close(UnrolledRecurrence(cell, layer)(inputs), layer(inputs)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("length", "dilation"), [(7, 1), (10, 3), (9, 3), (2, 9)])
def test_dilated_convolutions_are_those_of_pytorch(length: int, dilation: int) -> None:
    layer = CausalConvolution(Size(d=4, k=3), dilation).double()
    inputs = torch.randn(2, length, 4, dtype=torch.float64)
    padded = nn.functional.pad(inputs.transpose(1, 2), (2 * dilation, 0))
    expected = nn.functional.glu(
        nn.functional.conv1d(padded, layer.gate.weight, layer.gate.bias, dilation=dilation), dim=1
    )
    torch.testing.assert_close(layer(inputs), expected.transpose(1, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("self_attention", lambda n: 1),
        *((cell, lambda n: 1) for cell in CELLS),
        ("convolution", lambda n: math.ceil((n - 1) / (SIZE.k // 2))),
        ("causal_convolution", lambda n: math.ceil((n - 1) / (SIZE.k - 1))),
        # log_k(n), spared its rounding.
        ("dilated_convolution", lambda n: min(count for count in range(9) if SIZE.k**count >= n)),
    ],
)
def test_paths_are_those_of_the_table(name: str, layers: Callable[[int], int]) -> None:
    lengths = (2, 3, 4, 9, 10, 27, 28)
    found = [follow(NETWORKS[name], n) for n in lengths]
    assert [one["layers"] for one in found] == [layers(n) for n in lengths]
    sequential = [one["sequential"] for one in found]
    if name in CELLS:
        steps = {(b - a) / (m - n) for (n, a), (m, b) in pairwise(zip(lengths, sequential, strict=True))}
        # A step's matrix product, and what is done to it: all of it once for each token.
        assert steps == {{"lstm": 7, "gru": 6, "rnn": 3}[name]}
        assert [one["path"] for one in found] == sequential
    else:
        assert len(set(sequential)) == 1
        assert all(one["path"] >= one["layers"] * (sequential[0] - 1) for one in found)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What the command prints, and where its files lie."""
    folder = tmp_path_factory.mktemp("benchmark") / "layers"
    shown = StringIO()
    small = {"kernel_sizes": (3, 5, 7), "path_lengths": (2, 4), "batch_size": 1}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown):
        patch.setattr(costs, "SECONDS", 0.0)
        patch.setattr(measure, "Plan", partial(Plan, **small))
        arguments = ["--lengths", "32", "8", "16", "--widths", "64", "128", "--repeats", "2", "--threads", "1"]
        assert main(["benchmark", "layers", *arguments, "--output", str(folder), "--json"]) == 0
    return json.loads(shown.getvalue()), folder


def test_the_command_measures_every_layer_and_path(printed: tuple[dict[str, Any], Path]) -> None:
    result, folder = printed
    assert json.loads((folder / "layers.json").read_text(encoding="utf-8")) == result
    assert (result["settings"]["lengths"], result["settings"]["clock"]) == ([8, 16, 32], "computing")
    assert result["layers"].keys() == KINDS.keys()
    for name, layer in result["layers"].items():
        assert layer["against"].keys() == layer["table"].keys() == KINDS[name].exponents.keys()
        for letter, measured in layer["against"].items():
            assert measured["sizes"] == {"n": [8, 16, 32], "d": [64, 128], "k": [3, 5, 7]}[letter]
            assert all(seconds > 0 for seconds in measured["forward_seconds"] + measured["training_seconds"])
            for kept, peak in zip(measured["kept_bytes"], measured["peak_bytes"], strict=True):
                assert 0 < kept < peak
            # A line needs three points.
            assert (measured["fits"]["kept"] is None) == (letter == "d")
    assert result["layers"]["rnn"]["against"]["n"]["fits"]["kept"]["exponent"] == pytest.approx(1, abs=0.05)
    assert {name: path["layers"] for name, path in result["paths"].items()} == {
        **{name: [1, 1] for name in ("self_attention", *CELLS)},
        **{"convolution": [1, 3], "causal_convolution": [1, 2], "dilated_convolution": [1, 2]},
    }
    assert result["machine"]["cores"] >= 1
    assert result["versions"]["torch"] == torch.__version__


def test_the_command_leaves_figures(printed: tuple[dict[str, Any], Path]) -> None:
    _, folder = printed
    names = {f"{name}.{kind}" for name in ("time-n", "time-d", "memory", "reach") for kind in ("png", "svg")}
    assert {path.name for path in folder.iterdir()} == {"layers.json", *names}
    assert all((folder / name).stat().st_size > 10_000 for name in names)


def test_the_table_and_the_figures_say_what_was_measured(printed: tuple[dict[str, Any], Path]) -> None:
    result = json.loads(json.dumps(printed[0]))
    result["layers"]["lstm"]["against"]["n"]["fits"] = {
        "forward": {"exponent": 1.234, "counted": 1.0, "first": 8, "last": 32},
        "training": None,
        "kept": {"exponent": -0.001, "counted": 1.0, "first": 8, "last": 32},
    }
    lines = layers_table(result).splitlines()
    (line,) = (line for line in lines if line.split()[:2] == ["LSTM", "n"])
    assert line.split() == ["LSTM", "n", "1", "1.23", "1.00", "8-32", "-", "-", "too", "few", "0.00", "1.00"]
    assert max(map(len, lines)) < 130
    labels = [text.get_text() for text in draw(result)["time-n"].axes[0].get_legend().get_texts()]
    assert "LSTM: $n^{1.23}$" in labels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lengths", "8", "0"], "--lengths must be at least 1, got 0"),
        (["--widths", "64", "100"], "--widths must be multiples of 64, the width of a head, got 100"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--threads", "100000"], "--threads must be at most"),
        (["--lengths", "8", "10000000"], "lower --lengths or --widths"),
        (["--widths", "64", "6400000"], "length 256 and width 6,400,000 take about"),
    ],
)
def test_impossible_requests_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(main, ["benchmark", "layers", *arguments, "--output", str(tmp_path / "layers")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "layers").exists()


def test_an_earlier_result_is_kept(printed: tuple[dict[str, Any], Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, ["benchmark", "layers", "--output", str(printed[1])]) == 2
    assert "add --overwrite to replace it" in capsys.readouterr().err


def test_the_default_sizes_fit_into_little_memory() -> None:
    check_memory(Plan(), memory_gb=4)
    with pytest.raises(UsageError, match="length 2,048 and width 256 take about 2 GB, and the machine has 1:"):
        check_memory(Plan(), memory_gb=1)
