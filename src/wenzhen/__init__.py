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
_MODELING = "wenzhen.models.transformer.modeling_transformer"


def _register_configurations(auto: ModuleType) -> None:
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    auto.AutoConfig.register(WenzhenConfig.model_type, WenzhenConfig)


def _load_models(_: ModuleType) -> None:
    # Where the models' own import, or that of the layers they build on, has led to the Auto classes, it goes on after
    # this; and where nobody has asked for the Auto classes, there is nothing to register with.
    layers = sys.modules.get(_LAYERS)
    begun = _MODELING in sys.modules or (layers and not hasattr(layers, "GradientCheckpointingLayer"))
    if f"{_AUTO}modeling_auto" in sys.modules and not begun:
        import_module(_MODELING)


def _register_models(modeling: ModuleType) -> None:
    auto = sys.modules[f"{_AUTO}modeling_auto"]
    auto.AutoModel.register(modeling.WenzhenConfig, modeling.WenzhenModel)
    auto.AutoModelForSeq2SeqLM.register(modeling.WenzhenConfig, modeling.WenzhenForConditionalGeneration)


_AFTER_IMPORT: dict[str, Callable[[ModuleType], None]] = {
    f"{_AUTO}configuration_auto": _register_configurations,
    f"{_AUTO}modeling_auto": _load_models,
    _LAYERS: _load_models,
    _MODELING: _register_models,
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
