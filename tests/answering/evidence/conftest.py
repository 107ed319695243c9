"""A model's folder with an index of the sample dataset, shared by the tests of evidence."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, tiny_run
from wenzhen.answering.evidence.building import build_index
from wenzhen.recipe import load_recipe


@pytest.fixture(scope="session")
def unindexed(trained_folder: Path, dataset: Path, tokenizer_folder: Path) -> Path:
    """A folder of a trained model whose recipe names the sample dataset."""
    folder = shutil.copytree(trained_folder, trained_folder.with_name("unindexed"))
    load_recipe(str(ROOT / "recipes/quickstart.yaml"), tiny_run(dataset, tokenizer_folder)).save(folder)
    return folder


@pytest.fixture(scope="session")
def built(unindexed: Path) -> tuple[Path, dict[str, Any]]:
    """The folder with its index, and what building it returned."""
    folder = shutil.copytree(unindexed, unindexed.with_name("indexed"))
    return folder, build_index(folder)


@pytest.fixture
def indexed(built: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    """A copy of the folder with its index, elsewhere."""
    return shutil.copytree(built[0], tmp_path / "elsewhere")
