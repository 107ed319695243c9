"""`wenzhen safety`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wenzhen.answering.safety import SafetyNotice, SafetyRules
from wenzhen.answering.safety.scoring import read_cases, score
from wenzhen.cli.arguments import Verbs, add_json
from wenzhen.errors import UsageError


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "safety",
        help="try the safety rules on a question, or measure them on a list of cases",
        description="Say which safety rule takes a question before a model sees it, or how many emergencies of a "
        "list the rules recognise. No model is needed.",
    )
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="a question")
    parser.add_argument(
        "--file",
        type=Path,
        help="YAML list of cases: text, and the category of the emergency, or null where no rule is to hold",
    )
    parser.add_argument("--rules", type=Path, help="rule file (default: the project's own)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask the rules, and print what they say."""
    if (arguments.question is None) == (arguments.file is None):
        raise UsageError("give either QUESTION or --file")
    rules = SafetyRules(arguments.rules)
    if arguments.file:
        scores = score(rules, read_cases(arguments.file))
        print(json.dumps(scores, ensure_ascii=False) if arguments.json else scores_text(scores))
        return 0
    notice = rules.check_question(arguments.question)
    if arguments.json:
        print(json.dumps(asdict(notice) if notice else None, ensure_ascii=False))
    else:
        print(notice_text(notice) if notice else "no rule")
    return 0


def notice_text(notice: SafetyNotice) -> str:
    """Return a notice as lines."""
    return (
        f"rule: {notice.rule}  category: {notice.category}  matched: {', '.join(notice.matched)}  "
        f"(rules of {notice.version})\n{notice.title}\n{notice.advice}\n{notice.advice_en}"
    )


def scores_text(scores: dict[str, Any]) -> str:
    """Return the figures of a list of cases as lines."""
    shares = "  ".join(
        f"{name.replace('_', ' ')} {'none' if scores[name] is None else format(scores[name], '.1%')}"
        for name in ("recall", "precision", "right_category")
    )
    lines = [f"{scores['cases']} cases, {scores['emergencies']} emergencies; rules of {scores['version']}", shares]
    lines += [
        f"  {name:<16}recognised {counts['recognised']} of {counts['cases']}, as this category {counts['as_this']}"
        for name, counts in scores["categories"].items()
    ]
    lines += [f"missed: {case['text']} ({case['category']})" for case in scores["missed"]]
    lines += [f"false alarm: {case['text']} ({case['rule']})" for case in scores["false_alarms"]]
    return "\n".join(lines)
