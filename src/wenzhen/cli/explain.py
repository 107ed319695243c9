"""`wenzhen explain`."""

import argparse
import json
import sys
from pathlib import Path

from wenzhen.cli.arguments import Verbs, add_json
from wenzhen.errors import UsageError
from wenzhen.explain import TOPICS

EVERYTHING = "all"
DEFAULT_MODEL = Path("outputs/quickstart")
# These are about a text, and the model that reads it.
TEXT_TOPICS = ("masks", "attention")
EPILOG = """\
topics:
  saturation   why scores are divided by √d: softmax and its gradient against the size of the scores
  positions    the position table, and the rotation that leads from one position to another
  masks        what the padding and causal masks of a batch hide
  attention    where every layer and head looks, on a question and its answer
  all          all of these (the default)

Without MODEL, saturation and positions are those of the thesis' shape, untrained; masks and attention take
outputs/quickstart. The saturation of the thesis' shape takes about half a minute. A tokenizer folder is enough for
masks."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "explain",
        help="draw why the model is built as it is, and where it looks",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    parser.add_argument("topic", metavar="TOPIC", nargs="?", default=EVERYTHING, help="what to explain; see below")
    parser.add_argument("model", metavar="MODEL", nargs="?", type=Path, help="a model folder")
    parser.add_argument("--question", help="what masks and attention show (default: an example)")
    parser.add_argument("--answer", help="its answer (default: the model's own; the example has one for masks)")
    parser.add_argument("--output", type=Path, help="folder for the page (default: outputs/explain, or explain-TOPIC)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier result in the output folder")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compute, draw and say where the page lies."""
    topic, model = topic_and_model(arguments.topic, arguments.model)
    topics: tuple[str, ...] = TOPICS if topic == EVERYTHING else (topic,)
    if not set(TEXT_TOPICS) & set(topics):
        for name in ("question", "answer"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} goes with {', '.join(TEXT_TOPICS)} or {EVERYTHING}, not with {topic}")
    is_shape = model is not None
    if model is None and DEFAULT_MODEL.is_dir():
        model = DEFAULT_MODEL
    if model is None and topic in TEXT_TOPICS:
        raise UsageError(f"{topic} needs a MODEL, and there is no {DEFAULT_MODEL}; make it with: make quickstart")

    from wenzhen.explain.report import PAGE, Explainer, write_report

    explainer = Explainer(model, is_shape, arguments.question, arguments.answer)
    if topic == EVERYTHING and not is_shape and (reason := explainer.refusal()):
        topics = tuple(name for name in topics if name not in TEXT_TOPICS)
        print(f"no masks and no attention: {reason}", file=sys.stderr)
    output = arguments.output or Path("outputs", "explain" if topic == EVERYTHING else f"explain-{topic}")
    summary = write_report(explainer, topics, output, arguments.overwrite)
    if arguments.json:
        print(json.dumps({"page": str(output / PAGE), **summary}, ensure_ascii=False))
    else:
        print(f"page: {output / PAGE}  (each figure as SVG and PNG, each topic's numbers as JSON beside it)")
    return 0


def topic_and_model(topic: str, model: Path | None) -> tuple[str, Path | None]:
    """Tell topic from model where only one is given.

    Raises:
        UsageError: the topic is none, or the model no folder.
    """
    if topic not in (*TOPICS, EVERYTHING):
        if model is not None or not Path(topic).is_dir():
            raise UsageError(f"no topic and no model folder {topic}; topics: {', '.join((*TOPICS, EVERYTHING))}")
        topic, model = EVERYTHING, Path(topic)
    if model is not None and not model.is_dir():
        raise UsageError(f"no model folder {model}; make one with: make quickstart, or wenzhen train RECIPE")
    return topic, model
