"""`wenzhen answer`."""

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wenzhen.answering.decoding import decoding_named
from wenzhen.cli.arguments import Verbs, add_decoding, add_json, check_counts
from wenzhen.errors import UsageError

if TYPE_CHECKING:
    from wenzhen.answering.answer import Answer
    from wenzhen.answering.chunks import Job, Mapper

# Options that say how a file is answered.
OF_A_FILE = ("output", "overwrite", "processes", "batch_size", "ray")

# Characters of a consultation that stands beside an answer.
QUOTED = 120


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "answer",
        help="answer one question, or every question of a file",
        description="Answer a question, or the questions of a file, with a model: an emergency gets where to find "
        "help and no generated text, every other answer what speaks for it.",
        epilog="Stopped or killed, `--file F --output O` goes on behind the answers that there are when it is asked "
        "the same again; until it is through they stand in .O.partial. It ends with code 1 where a question could not "
        "be answered; its line then holds an `error`.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder, or an export (wenzhen export)")
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="a question in Chinese")
    parser.add_argument(
        "--file",
        type=Path,
        help="UTF-8 text with one question a line, or .jsonl with an object a line that has a question and, if "
        "wanted, an id; - for standard input",
    )
    parser.add_argument("--output", type=Path, help="write JSON lines to this file instead of standard output")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier file of answers, or one begun")
    parser.add_argument(
        "--processes", type=int, help="how many processes answer at a time, each with the model loaded (default: 1)"
    )
    parser.add_argument("--batch-size", type=int, help="questions at a time in a process (default: 64)")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="answer on a Ray cluster: HOST:PORT, auto for the one that this machine is in, local for one of this "
        "machine alone; the model has the same path on all machines (default for --processes: one for each GPU, or, "
        "without, one for each core)",
    )
    parser.add_argument("--no-evidence", action="store_true", help="look for no consultations beside the answers")
    parser.add_argument("--seed", type=int, help="seed of sampling: the same gives the same answers again")
    add_decoding(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer and print."""
    check_arguments(arguments)

    from wenzhen.answering.chunks import Job

    job = Job(
        folder=arguments.model,
        decoding=decoding_named(arguments.decoding),
        seed=arguments.seed,
        with_evidence=not arguments.no_evidence,
        **({"batch_size": arguments.batch_size} if arguments.batch_size else {}),
    )
    if arguments.file:
        return answer_questions(job, arguments)
    answerer = job.start()
    if job.seed is not None:
        answerer.engine.seed(job.seed)
    answer = answerer.answer(arguments.question, job.decoding)
    print(json.dumps(asdict(answer), ensure_ascii=False) if arguments.json else in_words(answer))
    return 0


def check_arguments(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together."""
    if (arguments.question is None) == (arguments.file is None):
        raise UsageError("give either QUESTION or --file")
    for name in OF_A_FILE:
        if not arguments.file and getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --file")
    if arguments.overwrite and not arguments.output:
        raise UsageError("--overwrite goes with --output")
    if arguments.question is not None and not arguments.question.strip():
        raise UsageError("the question is empty; ask in a sentence")
    if arguments.seed is not None and not 0 <= arguments.seed < 2**32:
        raise UsageError(f"--seed must be from 0 to {2**32 - 1}, got {arguments.seed}")
    check_counts(arguments, "processes", "batch-size")
    if arguments.ray and arguments.file == Path("-"):
        raise UsageError("--ray reads a file more than once, and standard input can be read once; name a file")


def answer_questions(job: "Job", arguments: argparse.Namespace) -> int:
    """Answer the questions of a file."""
    from tqdm import tqdm

    from wenzhen.answering.batch import answer_file, print_answers
    from wenzhen.answering.question_files import QuestionFile

    source = QuestionFile(None if arguments.file == Path("-") else arguments.file)
    mapper = chosen_mapper(arguments)
    if arguments.output:
        failed = answer_file(job, source, arguments.output, arguments.overwrite, mapper)
        print(f"answers: {arguments.output}")
    else:
        failed = print_answers(job, source, mapper)
    if failed:
        tqdm.write(f"questions that could not be answered: {failed:,}; see `error`", file=sys.stderr)
    return 1 if failed else 0


def chosen_mapper(arguments: argparse.Namespace) -> "Mapper":
    """Return what answers: this process, several, or a cluster's."""
    if arguments.ray:
        from wenzhen.answering.cluster.data import answer_on_cluster

        return partial(answer_on_cluster, address=arguments.ray, processes=arguments.processes)
    if (arguments.processes or 1) > 1:
        from wenzhen.answering.workers import answer_in_processes

        return partial(answer_in_processes, processes=arguments.processes)

    from wenzhen.answering.chunks import answer_here

    return answer_here


def in_words(answer: "Answer") -> str:
    """Return what a reader sees of an answer on a terminal."""
    from wenzhen.answering.answer import percent

    if answer.safety:
        return "\n\n".join([answer.safety.title, answer.safety.advice, answer.safety.advice_en, f"({answer.notice})"])
    parts = [answer.text, answer.caveat]
    if answer.unknown:
        parts.append(f"(模型不认识这些字：{answer.unknown})")
    if answer.department:
        parts.append(f"科室：{answer.department.name}（{percent(answer.department.probability)}）")
    # Beside what no model wrote there is nothing to compare.
    for found in answer.evidence if answer.text else ():
        parts.append(
            f"训练数据中相近的问诊，{found.department}，相似度 {found.similarity:.2f}：\n"
            f"  问：{shortened(found.question)}\n  答：{shortened(found.answer)}"
        )
    return "\n\n".join([*filter(None, parts), f"({answer.notice})"])


def shortened(text: str) -> str:
    """Return the beginning of a text, on a line."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTED else f"{line[:QUOTED]}…"
