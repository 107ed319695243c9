"""`wenzhen evaluate`."""

import argparse
import json
from pathlib import Path
from typing import Any

from wenzhen.answering.decoding import decoding_named
from wenzhen.cli.arguments import Verbs, add_decoding, add_json, add_questions, check_counts
from wenzhen.errors import UsageError
from wenzhen.evaluation.table import MEANINGS, metrics_table
from wenzhen.folders import name_of
from wenzhen.models import EXPORTED_WEIGHTS, METRICS_FILE, PREDICTIONS_FILE
from wenzhen.models.classifier import holds_classifier


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "evaluate",
        help="measure a model on questions that it has not seen",
        description="Measure a model on questions that it has not seen, beside answers that need no model:\n"
        "a constant one, a random one and that of the nearest training question.\n"
        "A classifier of departments is measured beside the commonest department and the nearest question's.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Stopped or killed, it goes on behind the answers that there are when it is asked the same again.\n\n"
        + "\n".join(f"{name:<16}{meaning}" for name, meaning in MEANINGS.items()),
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=Path,
        help=f"a model folder; or a {PREDICTIONS_FILE}, to count its metrics again",
    )
    add_questions(parser)
    parser.add_argument("--file", type=Path, help="ask these: .jsonl with question and answer, or one question a line")
    parser.add_argument("--no-floors", action="store_true", help="leave out the answers that need no model")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for metrics.json and predictions.jsonl (default: MODEL; outputs/MODEL-FILE for a --file)",
    )
    add_decoding(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, save and print."""
    check_counts(arguments, "limit", "batch-size")
    if arguments.file and arguments.split is not None:
        raise UsageError("can't ask both a --file and a --split; choose one")

    from wenzhen.evaluation.evaluator import evaluate_predictions

    chosen = {
        "dataset": arguments.dataset,
        "department": arguments.department,
        "limit": arguments.limit,
        "floors": not arguments.no_floors,
    }
    output = arguments.output
    if arguments.model.is_file():
        for name in ("file", "split", "decoding"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} goes with a model folder; {arguments.model} holds answers already")
        metrics = evaluate_predictions(arguments.model, output=output, **chosen)
    else:
        # What a model is worth on somebody's own questions is not what its card tells.
        own = Path("outputs") / f"{name_of(arguments.model)}-{arguments.file.stem}" if arguments.file else None
        output = output or own or arguments.model
        asked = {"file": arguments.file, "split": arguments.split or "test"}
        how = {"decoding": decoding_named(arguments.decoding), "batch_size": arguments.batch_size}
        if how["decoding"] is not None and holds_classifier(arguments.model):
            raise UsageError(f"--decoding is how answers are written; {arguments.model} holds a classifier")
        metrics = measure(arguments.model, output, **asked, **how, **chosen)
    if arguments.json:
        print(json.dumps(metrics, ensure_ascii=False))
    elif "confusion" in metrics:
        from wenzhen.evaluation.departments import CONFUSION, departments_table

        print(departments_table(metrics))
        print(f"metrics: {output / METRICS_FILE}  (figure: {output / CONFUSION})")
    else:
        print(metrics_table(metrics))
        if output is not None:
            answers = arguments.model if arguments.model.is_file() else output / PREDICTIONS_FILE
            print(f"metrics: {output / METRICS_FILE}  (answers: {answers})")
    return 0


def measure(model: Path, output: Path, **how: Any) -> dict[str, Any]:
    """Evaluate a model and save the result in `output`; where that is the model's folder, renew its card.

    A classifier of departments has no card, nor a decoding.
    """
    if holds_classifier(model):
        from wenzhen.evaluation.departments import evaluate_departments

        how.pop("decoding", None)
        return evaluate_departments(model, output, **how)
    from wenzhen.evaluation.evaluator import evaluate_model
    from wenzhen.hub.model_card import write_model_card

    metrics = evaluate_model(model, output, **how)
    # The card of an export is its original's.
    if output == model and not (model / EXPORTED_WEIGHTS).is_file():
        write_model_card(model)
    return metrics
