"""A comparison to read and to mail: `report.md` with its figures beside it, `report.html` with everything in it."""

import base64
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from wenzhen.answering.answer import NOTICE
from wenzhen.evaluation.comparison import CONFIDENCE
from wenzhen.evaluation.contest_folder import FIGURES, REPORT_MARKDOWN, REPORT_PAGE
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.scores import Scores
from wenzhen.evaluation.table import DEPARTMENT_METRICS, MEANINGS, MEASURES, number, score_rows
from wenzhen.folders import replace_file

# Questions whose answers stand side by side.
SAMPLES = 5
SEED = 0


def write_report(
    output: Path,
    result: Mapping[str, Any],
    scores: Mapping[str, Scores],
    figures: Mapping[str, str],
) -> None:
    """Write both reports.

    Args:
        output: the comparison's folder; its figures are drawn.
        result: what `comparison.json` says.
        scores: of all systems, for their answers.
        figures: the names of the figures' PNG files, and what each one shows.
    """
    content = {
        "result": result,
        "systems": result["systems"],
        "models": result["models"],
        "floors": {name: meaning for name, meaning in FLOORS.items() if name in result["systems"]},
        "metrics": [
            name for name in MEANINGS if any(system.get(name) is not None for system in result["systems"].values())
        ],
        "scores": score_rows(result["scores"]),
        "departments": department_tables(result["systems"]),
        "samples": samples(scores),
        "meanings": MEANINGS,
        "measures": MEASURES,
        "confidence": CONFIDENCE,
        "notice": NOTICE,
        "figures": figures,
        "pictures": {name: data_uri(output / FIGURES / name) for name in figures},
        "folder": FIGURES,
    }
    for file, template in ((REPORT_MARKDOWN, "report.md.jinja"), (REPORT_PAGE, "report.html.jinja")):
        environment = Environment(
            loader=PackageLoader("wenzhen.evaluation", "."),
            autoescape=file == REPORT_PAGE,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"number": number, "cell": cell, "count": "{:,}".format}
        text = environment.get_template(template).render(content)
        with replace_file(output / file) as draft:
            draft.write_text(text + "\n", encoding="utf-8", errors="replace")


def department_tables(systems: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[str]]]:
    """Return a table for each metric: a row a department with its questions and every system's value."""
    first = next(iter(systems.values()))["departments"]
    tables = {}
    for name in DEPARTMENT_METRICS:
        rows = [
            [
                department,
                f"{metrics['questions']:,}",
                *(number(system["departments"][department].get(name)) for system in systems.values()),
            ]
            for department, metrics in first.items()
        ]
        if any(value != "-" for row in rows for value in row[2:]):
            tables[name] = rows
    return tables


def samples(scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """Return some questions, drawn with a fixed seed, with the real answer and every system's."""
    predictions = next(iter(scores.values())).predictions
    rows = sorted(random.Random(SEED).sample(range(len(predictions)), min(SAMPLES, len(predictions))))
    return [
        {
            "department": predictions[row].department,
            "question": predictions[row].question,
            "answer": predictions[row].answer,
            "answers": {name: system.texts[row] for name, system in scores.items()},
        }
        for row in rows
    ]


def cell(text: str) -> str:
    """Keep a text on one line of a Markdown table, and from being taken for markup."""
    escaped = "".join(f"\\{character}" if character in "\\`*_|<>[]#$~" else character for character in text)
    return " ".join(escaped.split())


def data_uri(image: Path) -> str:
    """Return a PNG file as an address that holds the whole of it."""
    return f"data:image/png;base64,{base64.b64encode(image.read_bytes()).decode('ascii')}"
