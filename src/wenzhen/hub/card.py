"""The cards' templates: Markdown below a header of metadata, as the Hub shows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import CardData
from jinja2 import Environment, PackageLoader, TemplateError

from wenzhen.errors import UsageError

# Indentation and line ends of a template's own lines are none of the card's.
TEMPLATES = Environment(
    loader=PackageLoader("wenzhen.hub", "."), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)
TEMPLATES.globals["count"] = "{:,}".format


def render_card(template: str, data: CardData, **values: Any) -> str:
    """Return a repository's README.md.

    Args:
        template: name of a file of this package.
        data: the header.
        values: what the template speaks of; texts from elsewhere [`plain`].
    """
    return TEMPLATES.get_template(template).render(card_data=data.to_yaml(), **values)


def plain(value: Any) -> Any:
    """Return a text, or all texts of what a JSON file holds, so that they stay one line, one cell and no markup."""
    if isinstance(value, str):
        return " ".join("".join(c if c.isprintable() and c not in "`|<>" else " " for c in value).split())
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@contextmanager
def damage_told(file: Path, advice: str) -> Iterator[None]:
    """Turn whatever a file's content makes go wrong, a card's template included, into one line.

    Raises:
        UsageError: which names the file and what to do.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TemplateError,
        TypeError,
        ValueError,
    ) as error:
        raise UsageError(f"{file} is damaged: {' '.join(str(error).split())}; {advice}") from error
