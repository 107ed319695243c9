"""However a batch is cut and spread, it gives the same losses and gradient norms: through the real command."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT, tiny_run
from wenzhen.training.log import read_log

STEPS = 5
# Processes, pairs per process and forward pass, forward passes: always eight pairs a step.
SPREADS = {"batch 8": (1, 8, 1), "batch 2 x accumulation 4": (1, 2, 4), "two processes x 4": (2, 4, 1)}


def train_spread(
    spread: tuple[int, int, int], output: Path, dataset: Path, tokenizer_folder: Path, smoothing: float
) -> list[tuple[float, float]]:
    """Train for some steps; return each step's loss and gradient norm, and the validation loss with its perplexity."""
    processes, batch, accumulation = spread
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command = [
        sys.executable,
        *(launcher if processes > 1 else []),
        "-m",
        "wenzhen",
        "train",
        str(ROOT / "recipes/quickstart.yaml"),
        *tiny_run(dataset, tokenizer_folder),
        f"output={output}",
        "model.dropout=0.0",
        f"training.max_steps={STEPS}",
        f"training.eval_steps={STEPS}",
        "training.logging_steps=1",
        f"training.per_device_train_batch_size={batch}",
        f"training.gradient_accumulation_steps={accumulation}",
        f"training.label_smoothing_factor={smoothing}",
        "evaluation.questions=0",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return [
        (entry["loss"], entry["grad_norm"]) if "loss" in entry else (entry["eval_loss"], entry["eval_perplexity"])
        for entry in read_log(output)
    ]


@pytest.mark.parametrize("smoothing", [0.0, 0.1], ids=["plain", "label smoothing"])
def test_loss_and_gradient_norm_are_the_same_however_the_batch_is_spread(
    dataset: Path, tokenizer_folder: Path, tmp_path: Path, smoothing: float
) -> None:
    runs = {
        name: train_spread(spread, tmp_path / name, dataset, tokenizer_folder, smoothing)
        for name, spread in SPREADS.items()
    }
    reference = runs.pop("batch 8")
    assert len(reference) == STEPS + 1
    for run in runs.values():
        assert run == [pytest.approx(values, rel=1e-5) for values in reference]
