"""The model families, by the names that recipes have for them."""

from importlib import import_module
from typing import Any

from transformers import PreTrainedModel

from wenzhen.recipe import FAMILIES

# What the names of a family's classes begin with.
PREFIXES = {"transformer": "Wenzhen", "recurrent": "WenzhenRecurrent", "convolutional": "WenzhenConvolutional"}

# How they end, by the task; not every family has every one.
SUFFIXES = {"answer": "ForConditionalGeneration", "department": "ForSequenceClassification"}


def configuration_class(family: str) -> Any:
    """Return a family's configuration class."""
    module = import_module(f"wenzhen.models.{family}.configuration_{family}")
    return getattr(module, f"{PREFIXES[family]}Config")


def model_class(family: str, task: str = "answer") -> type[PreTrainedModel]:
    """Return a family's class with an output layer for a recipe's task, as one of transformers' Auto classes loads
    it."""
    module = import_module(f"wenzhen.models.{family}.modeling_{family}")
    found: type[PreTrainedModel] = getattr(module, f"{PREFIXES[family]}{SUFFIXES[task]}")
    return found


def family_of(model_type: str) -> str:
    """Return the family whose configurations have a `model_type`.

    Raises:
        KeyError: none has it.
    """
    return {configuration_class(family).model_type: family for family in FAMILIES}[model_type]
