"""`wenzhen evaluate`."""

import argparse
import json
from pathlib import Path
from typing import Any

from wenzhen.answering.decoding import decoding_named
from wenzhen.cli.arguments import Verbs, add_decoding, add_json
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import UsageError
from wenzhen.models import EXPORTED_WEIGHTS, METRICS_FILE, PREDICTIONS_FILE


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser("evaluate", help="measure a model on questions that it has not seen")
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    parser.add_argument("--split", default="test", choices=SPLITS, help="part of the dataset (default: %(default)s)")
    parser.add_argument("--dataset", type=Path, help="dataset folder (default: the one in the model's recipe)")
    parser.add_argument("--limit", type=int, help="measure on so many questions, drawn with a fixed seed")
    parser.add_argument("--batch-size", type=int, default=64, help="questions at a time (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="folder for metrics.json and predictions.jsonl (default: MODEL)")
    add_decoding(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, save and print."""
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
        print(f"metrics: {output / METRICS_FILE}  (answers: {output / PREDICTIONS_FILE})")
    return 0


def measure(model: Path, output: Path, **how: Any) -> dict[str, Any]:
    """Evaluate a model and save the result in `output`; where that is the model's folder, renew its card."""
    from wenzhen.evaluation.evaluator import evaluate_model
    from wenzhen.hub.model_card import write_model_card

    evaluation = evaluate_model(model, **how)
    output.mkdir(parents=True, exist_ok=True)
    evaluation.save(output)
    # The card of an export is its original's.
    if output == model and not (model / EXPORTED_WEIGHTS).is_file():
        write_model_card(model)
    return evaluation.metrics
