"""A model folder's way to the Hub: weights, tokenizer, code, recipe, metrics and the card, in one commit."""

import tempfile
from pathlib import Path

from wenzhen.corpus.schema import DATASET_FILE
from wenzhen.errors import UsageError
from wenzhen.hub.repository import check_push, commit
from wenzhen.models import EXPORTED_WEIGHTS, MODEL_FILES
from wenzhen.models.classifier import refuse_classifier
from wenzhen.recipe import RECIPE_FILE

# Folders of other kinds, by a file that only they hold, and what to do with them.
OTHER_FOLDERS = {
    DATASET_FILE: "it is a dataset: push it with data_scripts/build_dataset.py --output {folder} --push OWNER/NAME",
    EXPORTED_WEIGHTS: "it is an export to CTranslate2: push the model folder that it was made from",
    RECIPE_FILE: "its training is unfinished: wenzhen train RECIPE --resume",
    "config.json": "push the folder that wenzhen train names as its output",
    "tokenizer.json": "it is a tokenizer: push a model folder, which holds its own",
}


def push_model(folder: Path, repository: str, private: bool) -> str:
    """Publish a model folder as a model repository, which `AutoModelForSeq2SeqLM` loads by its name.

    One commit holds everything: whoever loads the repository meanwhile gets the old model or the new one.

    Args:
        folder: what `wenzhen train` made.
        repository: `OWNER/NAME`; made where there is none.
        private: whether a new repository is for its owner alone.

    Returns:
        The URL of what was pushed, the commit in it.

    Raises:
        UsageError: the folder holds no model or a damaged one, or as [`check_push`].
        RunError: the Hub cannot be reached, or fails; nothing is published then.
    """
    check_folder(folder)
    check_push(repository, "model", private)
    # It loads torch: what is wrong above is said at once.
    from wenzhen.hub.model_files import REPLACED, write_files

    with tempfile.TemporaryDirectory(prefix="wenzhen-") as scratch:
        files = write_files(folder, Path(scratch), repository)
        return commit(repository, "model", private, files, REPLACED)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is no model's.

    Raises:
        UsageError: which says what it is instead.
    """
    if not folder.is_dir():
        raise UsageError(f"no model folder {folder}; make one with: make quickstart, or wenzhen train RECIPE")
    refuse_classifier(folder)
    missing = [name for name in (*MODEL_FILES, RECIPE_FILE) if not (folder / name).is_file()]
    if missing:
        kinds = (words for name, words in OTHER_FOLDERS.items() if (folder / name).is_file())
        what = next(kinds, "name one that wenzhen train has made").format(folder=folder)
        raise UsageError(f"{folder} is no model folder, lacking {', '.join(missing)}; {what}")
