"""A trained model's folder and its export, shared by the tests of answering."""

from pathlib import Path

import pytest

from small_models import save_model_folder, small_tokenizer, trained_model
from wenzhen.answering.engines.ctranslate2 import CTranslate2Engine
from wenzhen.answering.engines.pytorch import PyTorchEngine


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = small_tokenizer()
    return save_model_folder(trained_model(tokenizer), tokenizer, tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture(scope="session")
def exported_folder(trained_folder: Path) -> Path:
    from wenzhen.answering.export import export_model

    output = trained_folder.with_name("exported")
    export_model(trained_folder, output, "float32")
    return output


@pytest.fixture(scope="session")
def original(trained_folder: Path) -> PyTorchEngine:
    return PyTorchEngine(trained_folder)


@pytest.fixture(scope="session")
def exported(exported_folder: Path) -> CTranslate2Engine:
    return CTranslate2Engine(exported_folder)
