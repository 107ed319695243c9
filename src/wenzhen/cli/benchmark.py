"""`wenzhen benchmark`."""

import argparse
import json
import math
from pathlib import Path

from wenzhen.answering.decoding import DECODINGS
from wenzhen.cli.arguments import Verbs, add_json, check_counts
from wenzhen.errors import UsageError

# Both search without drawing lots, so that all engines can write the same.
SEARCHES = tuple(name for name, decoding in DECODINGS.items() if not decoding.do_sample)
DTYPES = ("float32", "bfloat16", "float16")
TRAINING_DTYPES = ("float32", "bfloat16")
GPU_STEPS = 200
# What the output folder may hold, as patterns; the first one marks it as ours.
LAYERS_CONTENTS = ("layers.json", "*.png", "*.svg")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "benchmark", help="measure speed on this machine, against MarianMTModel or by kinds of layers"
    )
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
    train = kinds.add_parser("train", help="training steps: wenzhen train against MarianMTModel under the Trainer")
    train.add_argument("--batch-size", type=int, default=32, help="pairs in a step (default: %(default)s)")
    train.add_argument("--steps", type=int, help="of a repeat (default: 6; 200 on a GPU)")
    train.add_argument("--repeats", type=int, default=3, help="rounds of all contestants (default: %(default)s)")
    train.add_argument("--device", choices=("cpu", "cuda"), help="(default: the GPU where there is one)")
    train.add_argument(
        "--dtype",
        choices=("auto", *TRAINING_DTYPES),
        default="auto",
        help="of all but the defaults (default: bfloat16 where the machine has it)",
    )
    train.add_argument("--d-model", type=int, help="width of the model, d_ff four times as much (default: 512)")
    train.add_argument("--layers", type=int, help="of each side (default: 6)")
    train.add_argument("--compile", action="store_true", help="compile the networks; not the defaults'")
    train.add_argument(
        "--activation-checkpointing", action="store_true", help="recompute activations; not in the defaults"
    )
    train.add_argument("--dataset", type=Path, help="take pairs from this dataset folder (default: random pairs)")
    train.add_argument("--tokenizer", type=Path, help="tokenizer folder, with --dataset")
    train.add_argument("--profile", action="store_true", help="say where the time of our steps goes")
    add_json(train)
    train.set_defaults(run=run_train)
    layers = kinds.add_parser(
        "layers",
        help="layers: self-attention against recurrent and convolutional ones",
        description="Measure the thesis' table 4.2: time and memory of a layer of each kind against the length n and "
        "the width d, exponents fitted to them, operations that wait for each other, and how far a change reaches.",
    )
    layers.add_argument("--lengths", type=int, nargs="+", help="of the sequence (default: 64 to 2048)")
    layers.add_argument("--widths", type=int, nargs="+", help="of the layer (default: 64 to 1024)")
    layers.add_argument("--repeats", type=int, default=3, help="rounds through all sizes (default: %(default)s)")
    layers.add_argument("--threads", type=int, default=1, help="of PyTorch (default: %(default)s)")
    layers.add_argument(
        "--output", type=Path, default=Path("outputs/layers"), help="folder for figures (default: %(default)s)"
    )
    layers.add_argument("--overwrite", action="store_true", help="replace an earlier result in the output folder")
    add_json(layers)
    layers.set_defaults(run=run_layers)
    serve = kinds.add_parser(
        "serve",
        help="the demo: what visitors wait for when many ask at once",
        description="Let many users ask a demo at the same time, each again as soon as it has its answer, and measure "
        "how long the first character and the whole answer take.",
    )
    serve.add_argument("target", metavar="URL|MODEL", help="a demo's address, or a model to serve one of here")
    serve.add_argument("--users", type=int, default=20, help="how many ask at the same time (default: %(default)s)")
    serve.add_argument("--seconds", type=int, default=120, help="how long they go on asking (default: %(default)s)")
    serve.add_argument(
        "--pause", type=float, default=0, help="seconds between a user's questions, on average (default: %(default)s)"
    )
    add_json(serve)
    serve.set_defaults(run=run_serve)


def run_generate(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    check_counts(arguments, "tokens", "batch-size", "repeats")
    if arguments.model and not arguments.model.is_dir():
        raise UsageError(f"no model folder {arguments.model}; make one with: make quickstart, or wenzhen train RECIPE")

    from wenzhen.benchmark.generate import Case, Plan, benchmark_generation
    from wenzhen.benchmark.subject import load_subject, random_subject
    from wenzhen.benchmark.table import generation_table
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    device = choose_device(arguments.device)
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


def run_train(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    check_counts(arguments, "batch-size", "steps", "repeats", "d-model", "layers")
    if bool(arguments.dataset) != bool(arguments.tokenizer):
        raise UsageError("--dataset and --tokenizer go together: give both, or neither for random pairs")

    from huggingface_hub.errors import StrictDataclassError

    from wenzhen.benchmark.pairs import load_pool, random_pool
    from wenzhen.benchmark.table import training_table
    from wenzhen.benchmark.train import Plan, benchmark_training
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    device = choose_device(arguments.device)
    shape: dict[str, int] = {}
    if arguments.d_model:
        shape |= {"d_model": arguments.d_model, "d_ff": 4 * arguments.d_model}
    if arguments.layers:
        shape |= {"encoder_layers": arguments.layers, "decoder_layers": arguments.layers}
    try:
        config = WenzhenConfig(**shape)
    except StrictDataclassError as error:
        raise UsageError(f"no model has this shape: {error.__cause__ or error}") from error
    plan = Plan(
        config=config,
        batch_size=arguments.batch_size,
        steps=arguments.steps or (Plan().steps if device == "cpu" else GPU_STEPS),
        repeats=arguments.repeats,
        device=device,
        dtype=arguments.dtype,
        torch_compile=arguments.compile,
        activation_checkpointing=arguments.activation_checkpointing,
        profile=arguments.profile,
    )
    if arguments.dataset:
        pool, config.vocab_size = load_pool(arguments.dataset, arguments.tokenizer)
    else:
        pool = random_pool(config)
    result = benchmark_training(plan, pool)
    print(json.dumps(result, ensure_ascii=False) if arguments.json else training_table(result))
    return 0


def run_layers(arguments: argparse.Namespace) -> int:
    """Measure, draw, print, and say where the figures lie."""
    check_counts(arguments, "lengths", "widths", "repeats", "threads")

    from wenzhen.answering.translator import available_cores
    from wenzhen.benchmark.layers.drawing import draw
    from wenzhen.benchmark.layers.kinds import HEAD_DIM
    from wenzhen.benchmark.layers.measure import Plan, benchmark_layers
    from wenzhen.benchmark.layers.table import layers_table
    from wenzhen.explain.drawing import save, style
    from wenzhen.folders import published_folder

    plan = Plan(
        lengths=tuple(sorted(set(arguments.lengths or Plan().lengths))),
        widths=tuple(sorted(set(arguments.widths or Plan().widths))),
        repeats=arguments.repeats,
        threads=arguments.threads,
    )
    if plan.threads > available_cores():
        raise UsageError(
            f"--threads must be at most {available_cores()}, the cores that there are, got {plan.threads}"
        )
    if uneven := [width for width in plan.widths if width % HEAD_DIM]:
        raise UsageError(f"--widths must be multiples of {HEAD_DIM}, the width of a head, got {uneven[0]}")
    with published_folder(arguments.output, LAYERS_CONTENTS, arguments.overwrite) as folder:
        result = benchmark_layers(plan)
        (folder / LAYERS_CONTENTS[0]).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        with style():
            for name, figure in draw(result).items():
                save(figure, folder, name)
    if arguments.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(f"{layers_table(result)}\n\nfigures: {arguments.output}  (with {LAYERS_CONTENTS[0]})")
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """Measure and print; 1 where somebody got no answer."""
    check_counts(arguments, "users", "seconds")
    if not 0 <= arguments.pause < math.inf:
        raise UsageError(f"--pause must be at least 0 seconds, got {arguments.pause:g}")

    from wenzhen.benchmark.serve import benchmark_serving, serving_table

    result = benchmark_serving(arguments.target, arguments.users, arguments.seconds, arguments.pause)
    print(json.dumps(result, ensure_ascii=False) if arguments.json else serving_table(result))
    return 1 if result["errors"] else 0


def choose_device(wanted: str | None) -> str:
    """Return the device that was asked for, or the GPU where there is one."""
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: PyTorch finds no GPU here; leave it out, or use cpu")
    return wanted or ("cuda" if torch.cuda.is_available() else "cpu")
