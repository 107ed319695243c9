"""wenzhen (问诊): a Chinese medical question-answering model, from consultation records to answers.

Importing the package makes its model families known to transformers' Auto classes. It does so without importing torch
or transformers: each registration waits until transformers itself loads the Auto classes that it is for.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _register_configurations(auto: ModuleType) -> None:
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    auto.AutoConfig.register(WenzhenConfig.model_type, WenzhenConfig)


def _register_models(auto: ModuleType) -> None:
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
    from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration, WenzhenModel

    auto.AutoModel.register(WenzhenConfig, WenzhenModel)
    auto.AutoModelForSeq2SeqLM.register(WenzhenConfig, WenzhenForConditionalGeneration)


_REGISTRATIONS: dict[str, Callable[[ModuleType], None]] = {
    "transformers.models.auto.configuration_auto": _register_configurations,
    "transformers.models.auto.modeling_auto": _register_models,
}


class _RegisterAfterImport(MetaPathFinder):
    """Runs each registration right after its module of transformers has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _REGISTRATIONS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            _REGISTRATIONS[fullname](module)

        loader.exec_module = execute_and_register
        return spec


for _name, _register in _REGISTRATIONS.items():
    if _name in sys.modules:
        _register(sys.modules[_name])
sys.meta_path.insert(0, _RegisterAfterImport())
