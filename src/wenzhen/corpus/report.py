"""The report of a dataset as a page to read."""

from typing import Any


def table(header: tuple[str, str], rows: dict[str, int]) -> str:
    """Render counts as a Markdown table."""
    lines = [
        f"| {header[0]} | {header[1]} |",
        "|---|---:|",
        *(f"| {name} | {count:,} |" for name, count in rows.items()),
    ]
    return "\n".join(lines)


def render_report(report: dict[str, Any]) -> str:
    """Render the report that `report.json` holds as Markdown."""
    leaks = {
        f"{split} {kind} that stand in train": count
        for kind, counts in report["leakage"].items()
        for split, count in counts.items()
    }
    duplicates = report["duplicates"]
    return f"""# Dataset report

{report["read"]:,} records read = {report["kept"]:,} kept + {sum(report["rejected"].values()):,} rejected.
Every rejected record is in `rejects.jsonl` with its file, line, reason and raw text.

{table(("rejected for", "records"), report["rejected"] or {"nothing": 0})}

{table(("split", "records"), report["splits"])}

{table(("department", "records"), report["departments"])}

{duplicates["exact"]:,} exact duplicates were dropped. {duplicates["grouped"]:,} records share a question or an
answer with an earlier one (compared without punctuation, white space and case); such records stay on one side
of the split.

{table(("leakage", "records"), leaks)}
"""
