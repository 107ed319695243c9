"""Metrics as tables, with what each one means."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What `metrics.json` calls the split of questions from a file of one's own.
OWN_FILE = "file"
# What decides whether one system beats another: the four that the public corpus' own results are told in, and where
# the corpus lists facts, how many of them are right.
MEASURES = ("bleu4_ptuning", "rouge1_word", "rouge2_word", "rougeL_word", "fact_recall")
# Key of metrics.json -> what it is; shown in this order, in the terminal, on the model card and in reports.
MEANINGS = {
    "loss": "nats per real token",
    "perplexity": "exp(loss), per token",
    "padded_loss": "nats per token, answers padded to 200 tokens, padding free",
    "bleu4_char": "corpus BLEU-4 over characters (sacreBLEU), 0-100",
    "bleu4_zh": "corpus BLEU-4 over characters, Latin words whole (sacreBLEU zh), 0-100",
    "bleu4_lecture": "mean sentence BLEU-4 over characters, not smoothed, 0-100",
    "bleu4_ptuning": "mean sentence BLEU-4 over characters, smoothed as in ChatGLM-6B's P-Tuning script, 0-100",
    "rouge1_word": "ROUGE-1 F1 over different words (jieba, rouge-chinese), 0-100",
    "rouge2_word": "ROUGE-2 F1 over different pairs of words (jieba, rouge-chinese), 0-100",
    "rougeL_word": "ROUGE-L F1 over all words (jieba, rouge-chinese), so it can be above ROUGE-1, 0-100",
    "rougeL_char": "ROUGE-L F1 over characters (rouge-chinese), 0-100",
    "chrf": "chrF over character 1- to 6-grams (sacreBLEU), 0-100",
    "distinct2_char": "different character pairs over all pairs, 0-1",
    "length_ratio": "characters of the answers over those of the real ones",
    "ended": "share of answers that end by themselves",
    "repetitive": "share with a 4-gram of characters three times or more",
    "fact_recall": "share of the real answers' facts that are stated",
}
# Counted too, and in metrics.json; other orders and tokenizations of the same.
FURTHER = (
    "bleu1_char",
    "bleu2_char",
    "bleu3_char",
    "bleu1_zh",
    "bleu2_zh",
    "bleu3_zh",
    "rouge1_char",
    "rouge2_char",
    "distinct1_char",
)
# Of the table by departments.
DEPARTMENT_METRICS = ("loss", "bleu4_char", "rougeL_char", "rougeL_word", "fact_recall")


def number(value: float | None) -> str:
    """Write a metric's value for a table."""
    if value is None:
        return "-"
    if abs(value) >= 1e5:
        return f"{value:.2e}"
    digits = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def metric_rows(metrics: Mapping[str, Any]) -> list[list[str]]:
    """Return name, value and interval of every metric there is, and the floors' values."""
    floors: Mapping[str, Any] = metrics.get("floors", {})
    intervals: Mapping[str, Sequence[float]] = metrics.get("intervals", {})
    return [
        [
            name,
            number(metrics[name]),
            interval_cell(intervals.get(name)),
            *(number(floor.get(name)) for floor in floors.values()),
        ]
        for name in MEANINGS
        if metrics.get(name) is not None
    ]


def metrics_table(metrics: Mapping[str, Any]) -> str:
    """Render a model's metrics for a terminal: each with its interval, and the floors beside it."""
    floors = metrics["floors"]
    header = ["", "value", "95 % interval", *floors]
    blocks = [title(metrics), *aligned([header, *metric_rows(metrics)])]
    if metrics["departments"]:
        blocks += ["", *aligned(department_rows(metrics["departments"]))]
    blocks += ["", *leak_lines(metrics["near_duplicates"])]
    if floors and not metrics["verdicts"]:
        blocks.append("too few questions to say how sure anything is")
    if metrics["verdicts"]:
        measures = [name for name in MEASURES if metrics.get(name) is not None]
        blocks += [f"by the measures {', '.join(measures)}:", *(f"  {line}" for line in metrics["verdicts"])]
    return "\n".join(blocks).rstrip()


def title(metrics: Mapping[str, Any]) -> str:
    """Say what was asked."""
    what = f"{metrics['questions']:,} questions of "
    what += metrics["dataset"] if metrics["split"] == OWN_FILE else f"the {metrics['split']} split"
    what += f", {metrics['department']}" if metrics.get("department") else ""
    decoding = metrics.get("decoding") or {}
    what = shown(what)
    return what + (f", answers by {decoding['description']}" if "description" in decoding else "")


def interval_cell(ends: Sequence[float] | None) -> str:
    """Write the ends of an interval for a table."""
    return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def department_rows(departments: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return a table of departments."""
    names = [name for name in DEPARTMENT_METRICS if any(m.get(name) is not None for m in departments.values())]
    return [
        ["", "questions", *names],
        *(
            [department or "?", f"{metrics['questions']:,}", *(number(metrics.get(name)) for name in names)]
            for department, metrics in departments.items()
        ),
    ]


def leak_lines(near_duplicates: Mapping[str, Mapping[str, Any]] | None) -> list[str]:
    """Say how many questions have a near-duplicate in training, and what the metrics are without and with them."""
    if near_duplicates is None:
        return []
    if "with" not in near_duplicates:
        return ["no question has a near-duplicate in the training split"]
    leaked = near_duplicates["with"]["questions"]
    some = "1 question has" if leaked == 1 else f"{leaked:,} questions have"
    lines = [f"{some} a near-duplicate in the training split:"]
    for name, metrics in near_duplicates.items():
        measured = ", ".join(
            f"{key} {number(metrics[key])}" for key in DEPARTMENT_METRICS if metrics.get(key) is not None
        )
        lines.append(f"  {name} one ({metrics['questions']:,}): {measured}")
    return lines


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay cells out in columns, the first to the left, the others to the right."""
    table = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    return [
        "  "
        + "  ".join(pad(cell, size, place > 0) for place, (cell, size) in enumerate(zip(row, widths, strict=True)))
        for row in table
    ]


def shown(text: str) -> str:
    """Return a text without what would break a line or command a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def width(text: str) -> int:
    """Return the columns that a text takes in a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def pad(text: str, size: int, right: bool) -> str:
    """Fill a cell with blanks."""
    blanks = " " * (size - width(text))
    return blanks + text if right else text + blanks


def comparison_table(result: Mapping[str, Any]) -> str:
    """Render a comparison for a terminal: a row a system, how often each model is better, and the verdicts."""
    systems: Mapping[str, Mapping[str, Any]] = result["systems"]
    columns = {
        "loss": "loss",
        **{measure: measure for measure in MEASURES},
        "answers_per_second": "answers/s",
        "peak_memory_gb": "memory, GB",
    }
    known = {key: name for key, name in columns.items() if any(s.get(key) is not None for s in systems.values())}
    rows = [[name, *(number(system.get(key)) for key in known)] for name, system in systems.items()]
    lines = [result["title"], *aligned([["", *known.values()], *rows])]
    if any(result["scores"].values()):
        lines += ["", "measures won - undecided - lost (95 %)", *aligned(score_rows(result["scores"]))]
    return "\n".join([*lines, "", *result["leaks"], *result["verdicts"]])


def score_rows(scores: Mapping[str, Mapping[str, Sequence[int]]]) -> list[list[str]]:
    """Return a table of how often each model is better, undecided and worse than each other system."""
    others = list(dict.fromkeys(other for own in scores.values() for other in own))
    return [
        ["against", *others],
        *(
            [name, *(" - ".join(map(str, own[other])) if other in own else "" for other in others)]
            for name, own in scores.items()
        ),
    ]
