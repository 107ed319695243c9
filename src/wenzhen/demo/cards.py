"""What the page shows besides plain text fields; all of it escaped, whoever wrote it."""

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from wenzhen.answering.answer import NOT_COVERED, Answer, percent
from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts
from wenzhen.evaluation.table import number


@cache
def environment() -> Environment:
    """Return the templates; what is put into them is text, never markup."""
    templates = Environment(
        loader=PackageLoader("wenzhen.demo"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["texts"] = texts
    templates.filters |= {"number": number, "count": "{:,}".format, "percent": percent, "dial": dial}
    return templates


def dial(text: str) -> Markup:
    """Return a text, escaped, with the numbers to call in an emergency as links that a telephone dials."""
    return Markup(re.sub(r"(?<!\d)(1[12][09]|12356)(?!\d)", r'<a href="tel:\1">\1</a>', str(escape(text))))


def render(template: str, **values: object) -> str:
    """Return one of the templates, filled in."""
    return environment().get_template(f"{template}.html.jinja").render(values)


def message(text: Sequence[str], kind: str = "caution") -> str:
    """Return a card with one Chinese and one English sentence.

    Args:
        text: the two sentences.
        kind: `caution`, or `plain`.
    """
    return render("message", chinese=text[0], english=text[1], kind=kind)


def head_card(answer: Answer) -> str:
    """Return what stands above the answer or in its place: an emergency's notice, or a caveat."""
    return render("head", answer=answer)


def facts(answerer: Answerer, answer: Answer) -> str:
    """Return the lines below an answer: the department, how sure it is, how it was written."""
    return render(
        "facts",
        answer=answer,
        covered=answer.caveat != NOT_COVERED,
        least_similarity=answerer.evidence.least_similarity if answerer.evidence else None,
        least_probability=answerer.evidence.least_probability if answerer.evidence else None,
    )


def evidence_panel(answer: Answer) -> str:
    """Return the consultations beside an answer."""
    return render("evidence", evidence=answer.evidence, covered=answer.caveat != NOT_COVERED)
