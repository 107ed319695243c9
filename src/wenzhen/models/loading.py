"""Loading a model of one of our families, and saying in one line why that fails. No code of a folder's own is run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.utils import logging

from wenzhen.errors import UsageError
from wenzhen.models import CLASSIFIER_FILES, EXPORTED_WEIGHTS
from wenzhen.models.classifier import holds_classifier, refuse_classifier
from wenzhen.recipe import RECIPE_FILE

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def check_files(folder: Path, files: tuple[str, ...]) -> None:
    """Refuse a folder that lacks a file, or that holds a classifier where files of another model are wanted.

    Raises:
        UsageError: it does; its message names what is missing and how to get it.
    """
    if not folder.is_dir():
        raise UsageError(f"no model folder {folder}; make one with: make quickstart, or wenzhen train RECIPE")
    if files != CLASSIFIER_FILES:
        refuse_classifier(folder)
    missing = [name for name in files if not (folder / name).is_file()]
    if not missing:
        return
    if "model.safetensors" in missing and (folder / EXPORTED_WEIGHTS).is_file():
        raise UsageError(
            f"{folder} holds a model exported to CTranslate2, which PyTorch cannot load; name the folder that it was "
            "exported from"
        )
    unfinished = EXPORTED_WEIGHTS not in missing and (folder / RECIPE_FILE).is_file()
    hint = "; its training is unfinished: wenzhen train RECIPE --resume" if unfinished else ""
    raise UsageError(f"{folder} is no model folder: it lacks {', '.join(missing)}{hint}")


@contextmanager
def explained_loading(folder: Path, what: str = "model") -> Iterator[None]:
    """Keep transformers from talking while something of a folder is loaded, and name the folder where that fails.

    Raises:
        UsageError: it does, whatever the block raised.
    """
    # What transformers says while it loads comes between question and answer; what is wrong is said below.
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:
            reason = "it asks for code of its own (auto_map), which is never run"
        raise UsageError(f"the {what} in {folder} cannot be loaded: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)


def load_model(folder: Path, dtype: "torch.dtype | str" = "auto") -> "PreTrainedModel":
    """Load the weights of a model folder, on the CPU.

    Args:
        folder: what `wenzhen train` left.
        dtype: of the weights; `auto` for the one that they were saved in.

    Raises:
        UsageError: the model is of none of our families, or a classifier, its weights are not those of its
            configuration, or a file is damaged.
    """
    from transformers import AutoModelForSeq2SeqLM

    refuse_classifier(folder)
    return load_weights(folder, AutoModelForSeq2SeqLM, dtype)


def load_classifier(folder: Path) -> "PreTrainedModel":
    """Load the weights of a classifier's folder, in float32 on the CPU.

    Raises:
        UsageError: it lacks a file, holds another kind of model, or as [`load_model`].
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    if (folder / CLASSIFIER_FILES[0]).is_file() and not holds_classifier(folder):
        raise UsageError(
            f"{folder} holds no classifier of departments; train one with: wenzhen train "
            f"recipes/quickstart-departments.yaml output={folder}"
        )
    check_files(folder, CLASSIFIER_FILES)
    return load_weights(folder, AutoModelForSequenceClassification, torch.float32)


def load_weights(folder: Path, auto_class: Any, dtype: "torch.dtype | str") -> "PreTrainedModel":
    """Load the weights of a folder by one of transformers' Auto classes; see [`load_model`]."""
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    with explained_loading(folder):
        family = PreTrainedConfig.get_config_dict(folder)[0].get("model_type")
        if family not in CONFIG_MAPPING or not CONFIG_MAPPING[family].__module__.startswith("wenzhen."):
            raise UsageError(f"{folder} holds a {family or 'nameless'} model, not one of wenzhen's")
        model, loading = auto_class.from_pretrained(
            folder, dtype=dtype, trust_remote_code=False, output_loading_info=True
        )
    # transformers fills what is missing with random weights, which answer fluently too.
    wrong = sorted(key for name in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in loading[name])
    if wrong:
        raise UsageError(
            f"the weights in {folder} are not those of its config.json: {wrong[0]} and {len(wrong) - 1} more"
        )
    loaded: PreTrainedModel = model
    return loaded
