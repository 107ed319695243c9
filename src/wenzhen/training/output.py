"""A run's output folder: what may stand in it, and how it is begun, gone on with and finished."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast
from transformers.trainer import TRAINER_STATE_NAME

from wenzhen.corpus.schema import REPORT_FILE
from wenzhen.errors import UsageError
from wenzhen.models import CHECKPOINTS, DATASET_REPORT, FIGURE, LOG_FILE, MODEL_FILES, PREDICTIONS_FILE
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe, settings
from wenzhen.tokenization import save_tokenizer

# What a model folder may hold, as patterns; the first one marks it as ours.
CONTENTS = (
    RECIPE_FILE,
    CHECKPOINTS,
    "figures",
    LOG_FILE,
    "*.json",
    "*.safetensors",
    "*.py",
    PREDICTIONS_FILE,
    "README.md",
)
# What it holds at the end of a run, and not before.
FINISHED = (*MODEL_FILES, FIGURE)
# Settings that say how a run is spread over a machine; a resumed run may differ in them.
MACHINE_SETTINGS = (
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "activation_checkpointing",
    "dataloader_num_workers",
    "use_cpu",
    "save_total_limit",
)


def is_unfinished(output: Path) -> bool:
    """Tell whether a folder holds a run that has begun and not come to its model."""
    return (output / RECIPE_FILE).is_file() and not all((output / name).is_file() for name in FINISHED)


def find_checkpoint(output: Path, recipe: Recipe) -> str:
    """Return the newest checkpoint of an interrupted run of the recipe.

    Raises:
        UsageError: there is none, the run has finished, or it was another run.
    """
    if not (output / RECIPE_FILE).is_file():
        raise UsageError(f"{output} holds no run to go on with; train without --resume")
    if not is_unfinished(output):
        raise UsageError(f"the run in {output} has finished; there is nothing to resume")
    begun, wanted = (dict(fixed_settings(r)) for r in (load_recipe(str(output / RECIPE_FILE)), recipe))
    changed = [f"{key} was {begun[key]}, not {wanted[key]}" for key in begun if begun[key] != wanted[key]]
    if changed:
        raise UsageError(f"the run in {output} began with another recipe: {'; '.join(changed)}")
    checkpoints = sorted((output / CHECKPOINTS).glob("checkpoint-*"), key=lambda path: -int(path.name.split("-")[1]))
    # The trainer's state is written last: a checkpoint without it was torn, and the one before it is taken.
    whole = next((path for path in checkpoints if (path / TRAINER_STATE_NAME).is_file()), None)
    if whole is None:
        raise UsageError(f"the run in {output} stopped before its first checkpoint; start it again with --overwrite")
    return str(whole)


def fixed_settings(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a resumed run must share with its beginning, by their dotted keys."""
    for key, _, _ in settings():
        section, _, name = key.rpartition(".")
        if section != "evaluation" and key != "output" and name not in MACHINE_SETTINGS:
            yield key, getattr(getattr(recipe, section) if section else recipe, name)


def prepare_output_folder(output: Path, recipe: Recipe, resume: bool) -> None:
    """Put the recipe into the output folder, emptied unless the run is resumed; by it a later run knows the folder."""
    if output.exists() and not resume:
        for path in output.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    output.mkdir(parents=True, exist_ok=True)
    recipe.save(output)


def save_model(
    model: WenzhenForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, output: Path
) -> None:
    """Write what `AutoModelForSeq2SeqLM` and `AutoTokenizer` load, here or, with the code beside it, anywhere."""
    # The Trainer switches the cache off in the config for training.
    model.config.use_cache = True
    save_with_code(model, output)
    tokenizer.model_max_length = recipe.data.max_question_length
    save_tokenizer(tokenizer, output)
    report = Path(recipe.data.dataset) / REPORT_FILE
    if report.is_file():
        shutil.copyfile(report, output / DATASET_REPORT)
