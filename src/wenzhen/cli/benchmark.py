"""`wenzhen benchmark`."""

import argparse
import json
from pathlib import Path

from wenzhen.answering.decoding import DECODINGS
from wenzhen.cli.arguments import Verbs, add_json
from wenzhen.errors import UsageError

# Both search without drawing lots, so that all engines can write the same.
SEARCHES = tuple(name for name, decoding in DECODINGS.items() if not decoding.do_sample)
DTYPES = ("float32", "bfloat16", "float16")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser("benchmark", help="measure speed against transformers' MarianMTModel, on this machine")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    generate = kinds.add_parser("generate", help="answers: PyTorch and CTranslate2 against MarianMTModel")
    generate.add_argument("--model", type=Path, help="a model folder (default: random weights in the thesis' shape)")
    generate.add_argument(
        "--tokens", type=int, default=128, help="new tokens of every answer, none ends earlier (default: %(default)s)"
    )
    generate.add_argument(
        "--batch-size", type=int, nargs="+", default=[1, 32], help="questions at a time (default: 1 32)"
    )
    generate.add_argument(
        "--decoding", choices=SEARCHES, help="how to write (default: greedy for one question, beam for several)"
    )
    generate.add_argument("--repeats", type=int, default=5, help="rounds of every case (default: %(default)s)")
    generate.add_argument("--device", choices=("cpu", "cuda"), help="(default: the GPU where there is one)")
    generate.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="of the PyTorch models (default: %(default)s)"
    )
    generate.add_argument(
        "--compute-type", nargs="+", metavar="TYPE", help="of CTranslate2 (default: int8; float16 on a GPU)"
    )
    add_json(generate)
    generate.set_defaults(run=run_generate)


def run_generate(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    for name, values in (
        ("tokens", [arguments.tokens]),
        ("batch-size", arguments.batch_size),
        ("repeats", [arguments.repeats]),
    ):
        if min(values) < 1:
            raise UsageError(f"--{name} must be at least 1, got {min(values)}")
    if arguments.model and not arguments.model.is_dir():
        raise UsageError(f"no model folder {arguments.model}; make one with: make quickstart, or wenzhen train RECIPE")

    import torch

    from wenzhen.benchmark.generate import Case, Plan, benchmark_generation
    from wenzhen.benchmark.subject import load_subject, random_subject
    from wenzhen.benchmark.table import generation_table
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: PyTorch finds no GPU here; leave it out, or use cpu")
    plan = Plan(
        cases=tuple(
            Case(size, arguments.decoding or ("greedy" if size == 1 else "beam")) for size in arguments.batch_size
        ),
        new_tokens=arguments.tokens,
        repeats=arguments.repeats,
        device=device,
        dtype=arguments.dtype,
        compute_types=tuple(arguments.compute_type or (["int8"] if device == "cpu" else ["float16"])),
    )
    if arguments.model:
        subject = load_subject(arguments.model, plan.questions)
    else:
        subject = random_subject(WenzhenConfig(), plan.questions)
    result = benchmark_generation(subject, plan)
    print(json.dumps(result, ensure_ascii=False) if arguments.json else generation_table(result))
    return 0
