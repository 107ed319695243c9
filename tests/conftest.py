"""Small things that many tests share: a sample corpus, its dataset and tokenizer, a recipe, an untrained model."""

import gc
import os

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "TOKENIZERS_PARALLELISM": "false",
    # Threads that wait for each other on a busy machine cost a hundred times what matrices this small take.
    "OMP_NUM_THREADS": "1",
}

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import ROOT, tiny_run
from wenzhen.corpus.building import BuildOptions, build_dataset
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.sample import write_sample_corpus
from wenzhen.recipe import Recipe, load_recipe


def pytest_collection_finish() -> None:
    """Keep what is there for good, libraries and tests, from being searched whenever something tidies up."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "corpus"
    write_sample_corpus(folder, pairs=240, seed=1, faults_wanted=False, overwrite=False)
    return folder


@pytest.fixture(scope="session")
def dataset(corpus: Path) -> Path:
    folder = corpus.parent / "dataset"
    build_dataset(corpus, folder, BuildOptions(seed=1, validation_share=0.1))
    return folder


@pytest.fixture(scope="session")
def tokenizer_folder(dataset: Path) -> Path:
    from wenzhen.tokenization import save_tokenizer, train_tokenizer

    folder = dataset.parent / "tokenizer"
    split = load_split(dataset, "train")
    save_tokenizer(train_tokenizer([*split["question"], *split["answer"]]), folder)
    return folder


@pytest.fixture
def make_recipe(dataset: Path, tokenizer_folder: Path, tmp_path: Path) -> Callable[..., Recipe]:
    """Return a recipe for a run of seconds, with overrides."""

    def make(*overrides: str) -> Recipe:
        return load_recipe(str(ROOT / "recipes/quickstart.yaml"), [*tiny_run(dataset, tokenizer_folder), *overrides])

    return make


@pytest.fixture(scope="session")
def model_folder(dataset: Path, tokenizer_folder: Path) -> Path:
    """Return the folder of an untrained model."""
    from transformers import set_seed

    from wenzhen.tokenization import load_tokenizer
    from wenzhen.training.initial_model import build_model
    from wenzhen.training.output import save_model

    folder = dataset.parent / "model"
    overrides = [*tiny_run(dataset, tokenizer_folder), f"output={folder}"]
    recipe = load_recipe(str(ROOT / "recipes/quickstart.yaml"), overrides)
    tokenizer = load_tokenizer(tokenizer_folder)
    set_seed(0)
    folder.mkdir()
    recipe.save(folder)
    save_model(build_model(recipe, tokenizer), tokenizer, recipe, folder)
    return folder
