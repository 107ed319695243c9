"""`wenzhen answer`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from wenzhen.answering.decoding import decoding_named
from wenzhen.cli.arguments import Verbs, add_decoding, add_json
from wenzhen.errors import UsageError


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser("answer", help="answer one question, or every question of a file")
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="a question in Chinese")
    parser.add_argument("--file", type=Path, help="UTF-8 text file with one question a line")
    parser.add_argument("--output", type=Path, help="with --file: write JSON lines here instead of standard output")
    parser.add_argument("--seed", type=int, help="of sampling, for the same answer of the same engine again")
    add_decoding(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer and print."""
    if (arguments.question is None) == (arguments.file is None):
        raise UsageError("give either QUESTION or --file")
    if arguments.output and not arguments.file:
        raise UsageError("--output goes with --file")
    if arguments.question is not None and not arguments.question.strip():
        raise UsageError("the question is empty; ask in a sentence")
    if arguments.seed is not None and not 0 <= arguments.seed < 2**32:
        raise UsageError(f"--seed must be from 0 to {2**32 - 1}, got {arguments.seed}")
    if arguments.file and not arguments.file.is_file():
        raise UsageError(f"no file {arguments.file}")

    from wenzhen.answering.answerer import Answerer
    from wenzhen.answering.batch import answer_file

    answerer = Answerer(arguments.model)
    if arguments.seed is not None:
        answerer.engine.seed(arguments.seed)
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
