"""wenzhen (问诊): a Chinese medical question-answering model, from consultation records to answers.

Importing the package makes its model families known to transformers' Auto classes. It does so without importing torch
or transformers: each registration waits until transformers itself loads the Auto classes that it is for.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_AUTO = "transformers.models.auto."
_LAYERS = "transformers.modeling_layers"
# Module of a family's models -> what the names of its classes begin with.
_FAMILIES = {
    "wenzhen.models.transformer.modeling_transformer": "Wenzhen",
    "wenzhen.models.recurrent.modeling_recurrent": "WenzhenRecurrent",
    "wenzhen.models.convolutional.modeling_convolutional": "WenzhenConvolutional",
}


def _register_configurations(auto: ModuleType) -> None:
    for modeling, prefix in _FAMILIES.items():
        configuration = getattr(import_module(modeling.replace("modeling_", "configuration_")), f"{prefix}Config")
        auto.AutoConfig.register(configuration.model_type, configuration)


def _load_models(_: ModuleType) -> None:
    # Where a model's own import, or that of the layers they build on, has led to the Auto classes, it goes on after
    # this; and where nobody has asked for the Auto classes, there is nothing to register with.
    layers = sys.modules.get(_LAYERS)
    if f"{_AUTO}modeling_auto" not in sys.modules or (layers and not hasattr(layers, "GradientCheckpointingLayer")):
        return
    for modeling in _FAMILIES:
        if modeling not in sys.modules:
            import_module(modeling)


def _register_models(modeling: ModuleType) -> None:
    auto = sys.modules[f"{_AUTO}modeling_auto"]
    prefix = _FAMILIES[modeling.__name__]
    configuration, model, conditional = (
        getattr(modeling, prefix + name) for name in ("Config", "Model", "ForConditionalGeneration")
    )
    auto.AutoModel.register(configuration, model)
    auto.AutoModelForSeq2SeqLM.register(configuration, conditional)
    classifier = getattr(modeling, f"{prefix}ForSequenceClassification", None)
    if classifier:
        auto.AutoModelForSequenceClassification.register(configuration, classifier)


_AFTER_IMPORT: dict[str, Callable[[ModuleType], None]] = {
    f"{_AUTO}configuration_auto": _register_configurations,
    f"{_AUTO}modeling_auto": _load_models,
    _LAYERS: _load_models,
    **dict.fromkeys(_FAMILIES, _register_models),
}


class _AfterImport(MetaPathFinder):
    """Runs each of the functions above right after its module has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _AFTER_IMPORT:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_follow(module: ModuleType) -> None:
            execute(module)
            _AFTER_IMPORT[fullname](module)

        loader.exec_module = execute_and_follow
        return spec


_imported = [name for name in _AFTER_IMPORT if name in sys.modules]
sys.meta_path.insert(0, _AfterImport())
for _name in _imported:
    _AFTER_IMPORT[_name](sys.modules[_name])
