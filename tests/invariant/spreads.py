"""One training run, spread in different ways over processes and forward passes, through the real command.

`PYTHONPATH=tests python tests/invariant/spreads.py` prints how far their losses, gradient norms and weights are apart.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from safetensors.torch import load_file

from helpers import ROOT, tiny_run
from processes import places, start
from wenzhen.cli import main
from wenzhen.training.log import read_log

STEPS = 7
# Pairs, or tokens where a run has a budget, in a step.
PAIRS, TOKENS = 8, 1600
# Processes and forward passes of each; the first is what the others are compared with.
SPREADS = {
    "1 x 8": (1, 1),
    "2 x 4": (1, 4),
    "8 x 1": (1, 8),
    "two processes": (2, 1),
    "two processes x 2": (2, 2),
    "two processes, FSDP": (2, 1),
    "two processes x 2, FSDP": (2, 2),
}
# Each has a step that is not full: 6 pairs; 3 pairs, fewer than there are shares; and one below the budget.
RUNS = {
    "random": ["data.max_samples=30"],
    "random, few pairs": ["data.max_samples=11"],
    "grouped": ["data.max_samples=94", "training.train_sampling_strategy=group_by_length"],
    "token budget": ["training.train_sampling_strategy=group_by_length"],
}


@dataclass
class Outcome:
    """What a run leaves: losses and gradient norms of its steps, its validation loss, its weights."""

    losses: torch.Tensor
    norms: torch.Tensor
    validation_loss: float
    weights: torch.Tensor

    @classmethod
    def of(cls, folder: Path) -> "Outcome":
        """Read it from a model folder."""
        entries = read_log(folder)
        steps = [entry for entry in entries if "loss" in entry]
        weights = load_file(folder / "model.safetensors")
        return cls(
            *(torch.tensor([entry[key] for entry in steps], dtype=torch.float64) for key in ("loss", "grad_norm")),
            next(entry["eval_loss"] for entry in entries if "eval_loss" in entry),
            torch.cat([weights[name].flatten() for name in sorted(weights)]),
        )

    def distance(self, other: "Outcome") -> dict[str, float]:
        """Return the largest relative differences, and that of the weights as vectors."""
        return {
            "losses": float(((self.losses - other.losses) / other.losses).abs().max()),
            "gradient norms": float(((self.norms - other.norms) / other.norms).abs().max()),
            "validation loss": abs(self.validation_loss / other.validation_loss - 1),
            "weights": float((self.weights - other.weights).norm() / other.weights.norm()),
        }


def train(run: str, spread: str, output: Path, dataset: Path, tokenizer_folder: Path, *overrides: str) -> Outcome:
    """Train a run in one of the spreads."""
    processes, accumulation = SPREADS[spread]
    shares = processes * accumulation
    size = (
        f"max_tokens_per_batch={TOKENS // shares}"
        if "budget" in run
        else f"per_device_train_batch_size={PAIRS // shares}"
    )
    settings = [
        *tiny_run(dataset, tokenizer_folder),
        *RUNS[run],
        f"output={output}",
        "model.dropout=0.0",
        f"training.max_steps={STEPS}",
        f"training.eval_steps={STEPS}",
        "training.logging_steps=1",
        # Gradients that are nothing but rounding errors, as those of the keys' biases, move no weight.
        "training.adam_epsilon=1.0e-6",
        f"training.{size}",
        f"training.gradient_accumulation_steps={accumulation}",
        "evaluation.questions=0",
        "evaluation.examples=0",
        *overrides,
    ]
    arguments = ["train", str(ROOT / "recipes/quickstart.yaml"), *settings]
    if processes == 1:
        assert main(arguments) == 0
        return Outcome.of(output)
    shared = "FSDP" in spread
    program = [str(Path(__file__).with_name("fsdp_on_cpu.py"))] if shared else ["-m", "wenzhen"]
    environment = fsdp_settings(processes) if shared else {}
    commands = [
        start([*program, *arguments], output.with_name(f"{output.name} {rank}"), environment | place)
        for rank, place in enumerate(places(processes))
    ]
    for command in commands:
        assert command.wait() == 0, command.said()[-3000:]
    return Outcome.of(output)


def fsdp_settings(processes: int) -> dict[str, str]:
    """Return the variables that `accelerate launch` gives to processes that share a model."""
    words = ["--config_file", str(ROOT / "recipes/accelerate/fsdp.yaml"), f"--num_processes={processes}", "wenzhen"]
    arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    return prepare_multi_gpu_env(arguments)


def print_table() -> None:
    """Print the table of all runs in all spreads, with and without label smoothing."""
    from wenzhen.corpus.building import BuildOptions, build_dataset
    from wenzhen.corpus.loading import load_split
    from wenzhen.corpus.sample import write_sample_corpus
    from wenzhen.tokenization import save_tokenizer, train_tokenizer

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sample_corpus(folder / "corpus", pairs=240, seed=1, faults_wanted=False, overwrite=False)
        build_dataset(folder / "corpus", folder / "dataset", BuildOptions(seed=1, validation_share=0.1))
        split = load_split(folder / "dataset", "train")
        save_tokenizer(train_tokenizer([*split["question"], *split["answer"]]), folder / "tokenizer")
        for run in RUNS:
            for smoothing in (0.0, 0.1):
                reference = None
                for spread in SPREADS:
                    overrides = [f"training.label_smoothing_factor={smoothing}", *sys.argv[1:]]
                    output = folder / f"{run} {smoothing} {spread}"
                    outcome = train(run, spread, output, folder / "dataset", folder / "tokenizer", *overrides)
                    reference = reference or outcome
                    far = "  ".join(f"{name} {value:.1e}" for name, value in outcome.distance(reference).items())
                    print(f"{run:<18} smoothing {smoothing}  {spread:<24} {far}", flush=True)


if __name__ == "__main__":
    print_table()
