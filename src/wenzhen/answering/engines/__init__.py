"""Models at work: PyTorch for a trained model, CTranslate2 for an exported one, behind the same methods."""

from pathlib import Path

from wenzhen.answering.engines.base import Engine, Generated
from wenzhen.models import EXPORTED_WEIGHTS

__all__ = ["Engine", "Generated", "load_engine"]


def load_engine(folder: Path) -> Engine:
    """Load the model of a folder with the engine that its weights are for.

    Args:
        folder: what `wenzhen train` or `wenzhen export` left.

    Raises:
        UsageError: the folder holds no model.
    """
    if (folder / EXPORTED_WEIGHTS).is_file():
        from wenzhen.answering.engines.ctranslate2 import CTranslate2Engine

        return CTranslate2Engine(folder)
    from wenzhen.answering.engines.pytorch import PyTorchEngine

    return PyTorchEngine(folder)
