"""How many emergencies of a list of cases the rules recognise, and how many questions they take for one wrongly."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from wenzhen.answering.safety.rules import SafetyRules
from wenzhen.errors import UsageError
from wenzhen.folders import as_text


@dataclass(frozen=True, slots=True)
class Case:
    """A question, and the category of its emergency; None where it is none."""

    text: str
    category: str | None


def read_cases(file: Path) -> list[Case]:
    """Read a YAML list of `text` and `category`, which is null, or the word none, where no rule is to hold.

    Raises:
        UsageError: there is no such file, or it holds something else.
    """
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"no file {as_text(file)} can be read ({error.strerror}); name a YAML list of cases"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{as_text(file)} is no YAML in UTF-8: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{as_text(file)} must hold a list of cases, each with text and category")
    return [_case(entry, f"{as_text(file)}, case {number}") for number, entry in enumerate(entries, 1)]


def _case(entry: Any, where: str) -> Case:
    """Return one checked entry."""
    if not isinstance(entry, dict) or set(entry) != {"text", "category"}:
        raise UsageError(f"{where} must have text and category, and nothing else; got {entry!r}")
    text, category = entry["text"], entry["category"]
    if not isinstance(text, str) or not isinstance(category, str | None):
        raise UsageError(f"{where}: text must be a text, and category one or null; got {entry!r}")
    return Case(text, None if category in (None, "none", "无") else category)


def score(rules: SafetyRules, cases: Sequence[Case]) -> dict[str, Any]:
    """Put cases to the rules.

    Returns:
        `cases` and `emergencies`, counted; `recall`, the share of the emergencies that any rule recognises;
        `precision`, the share of what is recognised that is an emergency; `right_category`, the share of the
        emergencies whose notice is of their own category; each null where it is a share of none. `categories` has
        the counts of each, and `missed` and `false_alarms` the texts.
    """
    notices = [(case, rules.check_question(case.text)) for case in cases]
    emergencies = [(case, notice) for case, notice in notices if case.category]
    recognised = [(case, notice) for case, notice in emergencies if notice]
    alarms = [(case, notice) for case, notice in notices if notice and not case.category]
    categories = {}
    for category in dict.fromkeys(case.category for case, _ in emergencies):
        found = [notice.category if notice else None for case, notice in emergencies if case.category == category]
        categories[category] = {
            "cases": len(found),
            "recognised": sum(name is not None for name in found),
            "as_this": found.count(category),
        }
    return {
        "version": rules.version,
        "cases": len(cases),
        "emergencies": len(emergencies),
        "recall": _share(len(recognised), len(emergencies)),
        "precision": _share(len(recognised), len(recognised) + len(alarms)),
        "right_category": _share(sum(n.category == c.category for c, n in recognised), len(emergencies)),
        "categories": categories,
        "missed": [{"text": case.text, "category": case.category} for case, notice in emergencies if not notice],
        "false_alarms": [{"text": case.text, "category": n.category, "rule": n.rule} for case, n in alarms],
    }


def _share(part: int, whole: int) -> float | None:
    """Return a share, or None of nothing."""
    return part / whole if whole else None
