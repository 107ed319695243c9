"""The `wenzhen` command: one verb for each thing that is done with a recipe or a model.

Heavy libraries are imported by the verb that needs them, so that `--help` and wrong arguments answer at once.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from wenzhen.answering.decoding import DECODINGS, decoding_named
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError, run


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every verb."""
    parser = argparse.ArgumentParser(
        prog="wenzhen", description="Train, measure and use a Chinese medical question-answering model."
    )
    parser.add_argument("--version", action="version", version=f"wenzhen {metadata.version('wenzhen')}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    train = verbs.add_parser(
        "train",
        help="train a model by a recipe",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=settings_help(),
    )
    train.add_argument("recipe", metavar="RECIPE", help="a YAML file, or the name of one in recipes/")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="settings that win over the recipe's")
    train.add_argument("--resume", action="store_true", help="go on from the newest checkpoint of an interrupted run")
    train.add_argument("--overwrite", action="store_true", help="replace an earlier model in the output folder")
    train.set_defaults(run=run_train)

    evaluate = verbs.add_parser("evaluate", help="measure a model on questions that it has not seen")
    evaluate.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    evaluate.add_argument("--split", default="test", choices=SPLITS, help="part of the dataset (default: %(default)s)")
    evaluate.add_argument("--dataset", type=Path, help="dataset folder (default: the one in the model's recipe)")
    evaluate.add_argument("--limit", type=int, help="measure on so many questions, drawn with a fixed seed")
    evaluate.add_argument("--batch-size", type=int, default=64, help="questions at a time (default: %(default)s)")
    evaluate.add_argument("--output", type=Path, help="folder for metrics.json and predictions.jsonl (default: MODEL)")
    add_decoding(evaluate)
    evaluate.set_defaults(run=run_evaluate)

    answer = verbs.add_parser("answer", help="answer one question, or every question of a file")
    answer.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    answer.add_argument("question", metavar="QUESTION", nargs="?", help="a question in Chinese")
    answer.add_argument("--file", type=Path, help="UTF-8 text file with one question a line")
    answer.add_argument("--output", type=Path, help="with --file: write JSON lines here instead of standard output")
    answer.add_argument("--seed", type=int, help="of sampling, for the same answer again")
    add_decoding(answer)
    answer.set_defaults(run=run_answer)

    info = verbs.add_parser("info", help="say what this machine and installation are, for a bug report")
    info.set_defaults(run=run_info)
    for verb in (evaluate, answer, info):
        verb.add_argument("--json", action="store_true", help="print JSON for a program to read")
    return parser


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the choice of decoding to a verb."""
    parser.add_argument("--decoding", choices=DECODINGS, help="how to write the answer (default: the model's own way)")


def settings_help() -> str:
    """List every setting of a recipe with its meaning and default."""
    from dataclasses import MISSING

    from wenzhen.recipe import settings

    lines = ["settings:"]
    for key, member, _ in settings():
        default = "required" if member.default is MISSING else f"default: {member.default!s}"
        lines.append(f"  {key:<42}{member.metadata['meaning']} ({default})")
    return "\n".join(lines)


def run_train(arguments: argparse.Namespace) -> int:
    """`wenzhen train`."""
    from wenzhen.recipe import load_recipe

    if arguments.resume and arguments.overwrite:
        raise UsageError("can't both --resume and --overwrite; choose one")
    recipe = load_recipe(arguments.recipe, arguments.overrides)

    from wenzhen.training.trainer import CHECKPOINTS, train

    try:
        output = train(recipe, resume=arguments.resume, overwrite=arguments.overwrite)
    except KeyboardInterrupt:
        if (Path(recipe.output) / CHECKPOINTS).is_dir():
            print("stopped; the same command with --resume goes on from the newest checkpoint", file=sys.stderr)
        raise
    if os.environ.get("RANK", "0") != "0":
        return 0
    if recipe.evaluation.questions:
        measure(output, output, split="validation", limit=recipe.evaluation.questions)
    else:
        from wenzhen.hub.card import write_model_card

        write_model_card(output, rows=[])
    metrics = "metrics.json, " if recipe.evaluation.questions else ""
    print(f"model: {output}  (training_log.jsonl, figures/loss.png, {metrics}README.md)")
    return 0


def measure(model: Path, output: Path, **how: Any) -> dict[str, Any]:
    """Evaluate a model and save the result in `output`; where that is the model's folder, renew its card."""
    from wenzhen.evaluation.evaluator import evaluate_model
    from wenzhen.evaluation.table import metric_rows
    from wenzhen.hub.card import write_model_card

    evaluation = evaluate_model(model, **how)
    output.mkdir(parents=True, exist_ok=True)
    evaluation.save(output)
    if output == model:
        write_model_card(model, metric_rows(evaluation.metrics))
    return evaluation.metrics


def run_evaluate(arguments: argparse.Namespace) -> int:
    """`wenzhen evaluate`."""
    for name in ("limit", "batch_size"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    output = arguments.output or arguments.model
    metrics = measure(
        arguments.model,
        output,
        split=arguments.split,
        dataset=arguments.dataset,
        limit=arguments.limit,
        decoding=decoding_named(arguments.decoding),
        batch_size=arguments.batch_size,
    )
    if arguments.json:
        print(json.dumps(metrics, ensure_ascii=False))
    else:
        from wenzhen.evaluation.table import metrics_table

        print(metrics_table(metrics))
        print(f"metrics: {output / 'metrics.json'}  (answers: {output / 'predictions.jsonl'})")
    return 0


def run_answer(arguments: argparse.Namespace) -> int:
    """`wenzhen answer`."""
    if (arguments.question is None) == (arguments.file is None):
        raise UsageError("give either QUESTION or --file")
    if arguments.output and not arguments.file:
        raise UsageError("--output goes with --file")
    if arguments.question is not None and not arguments.question.strip():
        raise UsageError("the question is empty; ask in a sentence")
    if arguments.file and not arguments.file.is_file():
        raise UsageError(f"no file {arguments.file}")

    from wenzhen.answering.answerer import Answerer
    from wenzhen.answering.batch import answer_file

    answerer = Answerer(arguments.model)
    if arguments.seed is not None:
        from transformers import set_seed

        set_seed(arguments.seed)
    decoding = decoding_named(arguments.decoding)
    if arguments.file:
        failed = answer_file(answerer, arguments.file, arguments.output, decoding)
        return 1 if failed else 0
    answer = answerer.answer(arguments.question, decoding)
    if arguments.json:
        print(json.dumps(asdict(answer), ensure_ascii=False))
    else:
        print(answer.text)
        if answer.unknown:
            print(f"\n(模型不认识这些字：{answer.unknown})")
        print(f"\n({answer.notice})")
    return 0


def run_info(arguments: argparse.Namespace) -> int:
    """`wenzhen info`."""
    import torch

    from wenzhen.training.trainer import supports_bf16

    accelerator = torch.accelerator.current_accelerator()
    packages = ("wenzhen", "torch", "transformers", "datasets", "tokenizers", "accelerate", "evaluate", "gradio")
    report = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "accelerators": f"{torch.accelerator.device_count()} {accelerator.type}" if accelerator else "none",
        "bf16": supports_bf16(),
        **{name: metadata.version(name) for name in packages},
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        print("\n".join(f"{name:<16}{value}" for name, value in report.items()))
    return 0


def main(argv: Sequence[str]) -> int:
    """Run one verb; see [`wenzhen.errors.run`] for exit codes."""
    if not sys.stderr.isatty():
        # The libraries' progress bars fill a log file; each reads the variable when it is imported.
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    # argparse takes no more `key=value` once an option has come between.
    if arguments.verb == "train":
        arguments.overrides += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return int(arguments.run(arguments))


def entry_point() -> int:
    """Run the command line of this process."""
    return run(main, sys.argv[1:])
