"""What a model folder's own files say, checked, and without what is nobody else's business."""

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from wenzhen.corpus.splitting import SPLITS
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.table import FURTHER, MEANINGS, OWN_FILE
from wenzhen.hub.card import damage_told, plain
from wenzhen.models import LOG_FILE, METRICS_FILE
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe
from wenzhen.training.log import KEYS, read_log

# What a value may be, by its key. What no table names is not published.
Kinds = Mapping[str, tuple[type, ...]]
WHOLE = (int,)
NUMBER = (int, float)
WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}

VALUES: Kinds = dict.fromkeys((*MEANINGS, *FURTHER), (*NUMBER, NoneType))
SIGNATURES = ("bleu4_char_signature", "bleu_zh_signature", "chrf_signature")
METRICS: Kinds = {
    "dataset": (str,),
    "split": (str,),
    "questions": WHOLE,
    "leakage": (dict, NoneType),
    "department": (str, NoneType),
    "limit": (int, NoneType),
    **VALUES,
    **dict.fromkeys(SIGNATURES, (str,)),
    "decoding": (dict,),
    "intervals": (dict,),
    "floors": (dict,),
    "departments": (dict,),
}
PART: Kinds = {"questions": WHOLE, **VALUES}
FLOOR: Kinds = {**VALUES, "differences": (dict,)}
LEAKAGE: Kinds = {"questions": WHOLE, "answers": WHOLE, "near_duplicates": (int, NoneType)}
DECODING: Kinds = {"num_beams": WHOLE, "do_sample": (bool,)}
STEP: Kinds = {**dict.fromkeys(KEYS, NUMBER), "step": WHOLE}


def public_recipe(folder: Path) -> Recipe:
    """Return a model folder's recipe with names in the place of paths, which tell about the machine it was trained on.

    Raises:
        UsageError: there is no recipe, or it is damaged.
    """
    recipe = load_recipe(str(folder / RECIPE_FILE))
    for section in (recipe, *(getattr(recipe, field.name) for field in fields(recipe))):
        if is_dataclass(section):
            for field in fields(section):
                value = getattr(section, field.name)
                if isinstance(value, str):
                    # A text is a path, or a word in which nothing changes.
                    setattr(section, field.name, public_name(value))
    return recipe


def public_name(path: str) -> str:
    """Return what stands last in a path of any system, as a card can show it."""
    return plain(re.split(r"[/\\]", path.rstrip("/\\"))[-1]) or "unnamed"


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return a model folder's metrics as `wenzhen evaluate` writes them, empty where it was not measured.

    Raises:
        UsageError: they are damaged.
    """
    file = folder / METRICS_FILE
    if not file.is_file():
        return {}
    with damage_told(file, "measure again with wenzhen evaluate, or remove it"):
        metrics = known(load_object(file), METRICS, ("dataset", "split", "questions", "decoding"))
        metrics["dataset"] = public_name(metrics["dataset"])
        if metrics["split"] not in (*SPLITS, OWN_FILE):
            raise ValueError(
                f"split must be one of {', '.join((*SPLITS, OWN_FILE))}, got {reprlib.repr(metrics['split'])}"
            )
        for key in SIGNATURES:
            if not re.fullmatch(r"[\w.:|+-]*", metrics.get(key, "")):
                raise ValueError(f"{key} is none of sacreBLEU")
        if metrics.get("department"):
            metrics["department"] = plain(metrics["department"])
        metrics["intervals"] = numbers(metrics.get("intervals", {}), 2, "intervals.")
        metrics["floors"] = {
            name: read_floor(floor, f"floors.{name}.")
            for name, floor in metrics.get("floors", {}).items()
            if name in FLOORS
        }
        metrics["departments"] = {
            plain(name): known(part, PART, ("questions",), f"departments.{name}.")
            for name, part in metrics.get("departments", {}).items()
        }
        metrics["decoding"] = known(metrics["decoding"], DECODING, tuple(DECODING), "decoding.")
        if metrics.get("leakage") is not None:
            metrics["leakage"] = known(metrics["leakage"], LEAKAGE, ("questions", "answers"), "leakage.")
    return metrics


def read_floor(content: Any, prefix: str) -> dict[str, Any]:
    """Return a floor's metrics, and how much better the model is; a `ValueError` says what is wrong with them."""
    floor = known(content, FLOOR, ("differences",), prefix)
    return {**floor, "differences": numbers(floor["differences"], 3, f"{prefix}differences.")}


def numbers(content: Any, length: int, prefix: str) -> dict[str, list[float]]:
    """Return lists of so many numbers by the names of metrics; a `ValueError` says what is wrong with them."""
    lists = known(content, dict.fromkeys(VALUES, (list,)), prefix=prefix)
    for name, values in lists.items():
        if len(values) != length or any(type(value) not in NUMBER for value in values):
            raise ValueError(f"{prefix}{name} must be {length} numbers, got {reprlib.repr(values)}")
    return lists


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a model folder's training log, none where it has no log.

    Raises:
        UsageError: the log is damaged.
    """
    file = folder / LOG_FILE
    if not file.is_file():
        return []
    with damage_told(file, "take the log that wenzhen train wrote, or remove it"):
        return [known(entry, STEP, ("step", "epoch")) for entry in read_log(folder)]


def read_object(file: Path, advice: str) -> dict[str, Any]:
    """Return what a JSON file holds, nothing where there is no such file.

    Raises:
        UsageError: it holds no JSON object.
    """
    with damage_told(file, advice):
        return load_object(file) if file.is_file() else {}


def load_object(file: Path) -> dict[str, Any]:
    """Load a JSON object; a `ValueError` says what else the file holds."""
    return known(json.loads(file.read_text(encoding="utf-8")))


def known(content: Any, kinds: Kinds | None = None, required: Sequence[str] = (), prefix: str = "") -> dict[str, Any]:
    """Return an object's known keys; a `ValueError` says what is wrong with it.

    Args:
        content: what is to be an object.
        kinds: the known keys; None for all that there are, whatever they hold.
        required: keys that must be there.
        prefix: of the keys, in messages.
    """
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got {reprlib.repr(content)}")
    for key in required:
        if key not in content:
            raise ValueError(f"it lacks {prefix}{key}")
    if kinds is None:
        return content
    known_items = {key: value for key, value in content.items() if key in kinds}
    for key, value in known_items.items():
        if type(value) not in kinds[key]:
            expected = " or ".join(WORDS[kind] for kind in kinds[key] if kind is not int or float not in kinds[key])
            raise ValueError(f"{prefix}{key} must be {expected}, got {reprlib.repr(value)}")
    return known_items
