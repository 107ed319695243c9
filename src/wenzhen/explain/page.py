"""The page: every figure with a few sentences, in Chinese and English, in one file that needs no network."""

import base64
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from wenzhen.answering.answer import NOTICE

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write_page(file: Path, summary: dict[str, Any], figures: dict[str, list[str]]) -> None:
    """Write the page beside the figures, whose SVG files become part of it.

    Args:
        file: the page to write; the figures lie in its folder.
        summary: the numbers of each topic.
        figures: the names of each topic's figures.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"number": number, "percent": percent, "plural": plural, "join_lines": join_lines}
    source = resources.files("wenzhen.explain").joinpath("page.html.jinja").read_text(encoding="utf-8")
    pictures = {name: file.parent / f"{name}.svg" for names in figures.values() for name in names}
    page = environment.from_string(source).render(
        summary=summary,
        images={name: data_uri(picture) for name, picture in pictures.items()},
        widths={name: width(picture) for name, picture in pictures.items()},
        notice=NOTICE,
    )
    file.write_text(page, encoding="utf-8")


def data_uri(image: Path) -> str:
    """Return an SVG file as an address that holds the whole of it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(image.read_bytes()).decode('ascii')}"


def width(image: Path) -> float:
    """Return the width of an SVG file of matplotlib's, in points."""
    found = re.search(r'<svg [^>]*?\bwidth="([\d.]+)pt"', image.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return float(found[1])


def join_lines(html: str) -> Markup:
    """Join the lines of Chinese text: a browser would put a space between characters that have none."""
    chinese, punctuation = r"[\u4e00-\u9fff]", r"[，。；：、（）“”]"
    text = re.sub(rf"(?<={punctuation})\n|\n(?={punctuation})|(?<={chinese})\n(?={chinese})", "", html.strip())
    return Markup(text)


def number(value: float | None) -> str:
    """Write a number with two digits, far ones with a power of ten: 0.097, 250, 4.7×10⁻⁷."""
    if value is None:
        return "∞"
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}×10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def plural(count: int, noun: str) -> str:
    """Write a count of things: 1 layer, 2 layers."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def percent(value: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * value:.0f}\u00a0%"
