"""Which folders hold a classifier of departments in the place of a model that answers."""

import json
from pathlib import Path

from wenzhen.errors import UsageError

ARCHITECTURE = "WenzhenForSequenceClassification"


def holds_classifier(folder: Path) -> bool:
    """Tell whether a folder's config.json is that of a classifier of departments."""
    try:
        return ARCHITECTURE in json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    except (OSError, ValueError, LookupError, TypeError):
        return False


def refuse_classifier(folder: Path) -> None:
    """Refuse a folder with a classifier where a model that answers is asked for.

    Raises:
        UsageError: it holds one.
    """
    if holds_classifier(folder):
        raise UsageError(
            f"{folder} holds a classifier of departments, which writes no answers; name the folder of a model that "
            f"does (wenzhen evaluate {folder} measures the classifier)"
        )
