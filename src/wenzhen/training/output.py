"""A run's output folder: what may stand in it, and how it is begun, gone on with and finished."""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from safetensors import SafetensorError
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from wenzhen.corpus.schema import REPORT_FILE
from wenzhen.errors import RunError, UsageError
from wenzhen.models import (
    CHECKPOINTS,
    CLASSIFIER_FILES,
    DATASET_REPORT,
    DEPARTMENTS,
    EVIDENCE,
    FIGURE,
    LOG_FILE,
    METRICS_FILE,
    MODEL_FILES,
    PARTIAL_PREDICTIONS,
    PREDICTIONS_FILE,
    TENSORBOARD,
    TRAINING_TIME,
)
from wenzhen.models.classifier import holds_classifier
from wenzhen.models.saving import save_with_code
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe
from wenzhen.tokenization import save_tokenizer
from wenzhen.training.batching import hash_tokens
from wenzhen.training.checkpoints import DRAFT, CheckpointFolder, discard, synchronize

# What a model folder may hold, as patterns; the first one marks it as ours.
CONTENTS = (
    RECIPE_FILE,
    CHECKPOINTS,
    "figures",
    TENSORBOARD,
    LOG_FILE,
    TRAINING_TIME,
    *MODEL_FILES,
    DATASET_REPORT,
    METRICS_FILE,
    "configuration_*.py",
    "modeling_*.py",
    PREDICTIONS_FILE,
    PARTIAL_PREDICTIONS,
    EVIDENCE,
    # What a killed `wenzhen index` leaves.
    f".{EVIDENCE}.draft-*",
    DEPARTMENTS,
    "README.md",
)
# Settings that say how a run is spread over a machine; a resumed run may differ in them.
MACHINE_SETTINGS = (
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "max_tokens_per_batch",
    "activation_checkpointing",
    "dataloader_num_workers",
    "use_cpu",
    "save_total_limit",
)


def is_unfinished(output: Path) -> bool:
    """Tell whether a folder holds a run that has begun and not come to its model."""
    files = CLASSIFIER_FILES if holds_classifier(output) else MODEL_FILES
    return (output / RECIPE_FILE).is_file() and not all((output / name).is_file() for name in (*files, FIGURE))


def find_checkpoint(output: Path, recipe: Recipe) -> str:
    """Return the newest checkpoint of an interrupted run of the recipe that is whole; broken ones are named.

    Raises:
        UsageError: there is none, the run has finished, or it was another run.
    """
    if not (output / RECIPE_FILE).is_file():
        raise UsageError(f"{output} holds no run to go on with; train without --resume")
    if not is_unfinished(output):
        raise UsageError(
            f"the run in {output} has finished; there is nothing to resume (wenzhen evaluate {output} measures it)"
        )
    begun, wanted = (dict(fixed_settings(r)) for r in (load_recipe(str(output / RECIPE_FILE)), recipe))
    # Another network has other settings too; that it is another one is said by `model.family`.
    changed = [
        f"{key} was {value}, not {wanted[key]}" for key, value in begun.items() if wanted.get(key, value) != value
    ]
    if changed:
        raise UsageError(f"the run in {output} began with another recipe: {'; '.join(changed)}")
    # One process looks, and all take the same.
    found: list[Path | None] = [None]
    if PartialState().is_main_process:
        found = [newest_checkpoint(CheckpointFolder(output / CHECKPOINTS))]
    (checkpoint,) = broadcast_object_list(found)
    if checkpoint is None:
        raise UsageError(f"the run in {output} stopped before its first checkpoint; start it again with --overwrite")
    return str(checkpoint)


def newest_checkpoint(checkpoints: CheckpointFolder) -> Path | None:
    """Clear up after a killed run and return its newest checkpoint that is whole; broken ones are named.

    Raises:
        UsageError: there are checkpoints, and all of them are broken.
    """
    checkpoints.finish_drafts()
    for step in reversed(checkpoints.steps()):
        fault = checkpoints.find_fault(step)
        if fault is None:
            return checkpoints.place(step)
        tqdm.write(f"skipped     {checkpoints.place(step)}: {fault}", file=sys.stderr)
    if checkpoints.steps():
        raise UsageError(f"no checkpoint in {checkpoints.folder} is whole; start the run again with --overwrite")
    return None


def fixed_settings(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a resumed run must share with its beginning, by their dotted keys."""
    for key, value in recipe.items():
        section, _, name = key.rpartition(".")
        if section != "evaluation" and key != "output" and name not in MACHINE_SETTINGS:
            yield key, value


def describe_content(recipe: Recipe, encoded: dict[str, Dataset]) -> str:
    """Hash what a run learns from, what it measures and how, wherever dataset and tokenizer lie."""
    fixed = {key: value for key, value in fixed_settings(recipe) if key not in ("data.dataset", "data.tokenizer")}
    tokens = {name: hash_tokens(split) for name, split in encoded.items()}
    return hashlib.sha256(json.dumps([fixed, tokens], sort_keys=True).encode()).hexdigest()


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, which need not exist."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def prepare_output_folder(output: Path, recipe: Recipe, resume: bool) -> None:
    """Put the recipe into the output folder, emptied unless the run is resumed; by it a later run knows the folder."""
    if resume:
        # In one step: without it the checkpoints beside it would be nobody's.
        draft = output / CHECKPOINTS / f"{DRAFT}recipe"
        draft.mkdir(parents=True, exist_ok=True)
        recipe.save(draft)
        synchronize(draft / RECIPE_FILE)
        (draft / RECIPE_FILE).replace(output / RECIPE_FILE)
        discard(draft)
        return
    if output.exists():
        # The recipe goes last: as long as anything else stands there, the folder is known by it.
        for path in sorted(output.iterdir(), key=lambda path: path.name == RECIPE_FILE):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    output.mkdir(parents=True, exist_ok=True)
    recipe.save(output)


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, output: Path) -> None:
    """Write what the model's Auto class and `AutoTokenizer` load, here or, with the code beside it, anywhere.

    Raises:
        RunError: the disk does not take it.
    """
    # The Trainer switches the cache off in the config for training.
    model.config.use_cache = True
    tokenizer.model_max_length = recipe.data.max_question_length
    try:
        save_with_code(model, output)
        save_tokenizer(tokenizer, output)
        for name in MODEL_FILES if model.can_generate() else CLASSIFIER_FILES:
            synchronize(output / name)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"the model cannot be written to {output}: {error}; the checkpoints are intact: make room, and the same "
            "command with --resume writes it"
        ) from error
    report = Path(recipe.data.dataset) / REPORT_FILE
    if report.is_file():
        shutil.copyfile(report, output / DATASET_REPORT)
