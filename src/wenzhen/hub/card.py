"""The cards' templates: Markdown below a header of metadata, as the Hub shows it."""

from typing import Any

from huggingface_hub import CardData
from jinja2 import Environment, PackageLoader

from wenzhen.corpus.report import render_cell

# Indentation and line ends of a template's own lines are none of the card's.
TEMPLATES = Environment(
    loader=PackageLoader("wenzhen.hub", "."), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)
TEMPLATES.globals["count"] = "{:,}".format
TEMPLATES.filters["cell"] = render_cell


def render_card(template: str, data: CardData, **values: Any) -> str:
    """Return a repository's README.md.

    Args:
        template: name of a file of this package.
        data: the header.
        values: what the template speaks of.
    """
    return TEMPLATES.get_template(template).render(card_data=data.to_yaml(), **values)
