"""What is published of a model folder."""

import json
import shutil
from inspect import get_annotations
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.safety import SafetyRules
from wenzhen.hub.companions import check_companion
from wenzhen.hub.model_card import model_card
from wenzhen.hub.records import public_recipe, read_metrics, read_steps
from wenzhen.models import DATASET_REPORT, FIGURE, LOG_FILE, METRICS_FILE, SAFETY_RULES
from wenzhen.models.saving import save_with_code
from wenzhen.tokenization import save_tokenizer
from wenzhen.training.log import log_line

# What goes along where a model folder has it. The predictions never do: they hold what people asked.
COMPANIONS = (METRICS_FILE, LOG_FILE, FIGURE)
# What an earlier push may have left in the repository that this one has no more.
REPLACED = (*COMPANIONS, SAFETY_RULES, "figures/*.png", "*.py", "*.safetensors")
# What transformers writes into a configuration besides the fields of its class.
CONFIG_KEYS = ("architectures", "auto_map", "dtype", "model_type", "transformers_version")
# And of what classifies.
LABELS = ("id2label", "label2id")


def write_files(folder: Path, scratch: Path, repository: str) -> dict[str, Path | bytes]:
    """Write everything that is published of a model folder, each file anew with the keys that are known.

    Args:
        folder: a model folder.
        scratch: an empty folder.
        repository: `OWNER/NAME`, for the card.

    Returns:
        The files by their paths in the repository.

    Raises:
        UsageError: weights, configuration and tokenizer do not belong together, or a file is damaged or a link.
    """
    write_records(folder, scratch)
    if steps := read_steps(folder):
        (scratch / LOG_FILE).write_text("".join(map(log_line, steps)), encoding="utf-8")
    write_rules(folder, scratch)
    write_weights(folder, scratch)
    card = model_card(scratch, repository, folder / DATASET_REPORT).encode()
    written = {path.relative_to(scratch).as_posix(): path for path in sorted(scratch.rglob("*")) if path.is_file()}
    return {"README.md": card, **written}


def write_records(folder: Path, scratch: Path) -> None:
    """Write how a model was trained and measured.

    Raises:
        UsageError: a file is damaged or a link.
    """
    for name in COMPANIONS:
        if (folder / name).is_file():
            check_companion(folder, folder / name)
    public_recipe(folder).save(scratch)
    if metrics := read_metrics(folder):
        write_object(metrics, scratch / METRICS_FILE)
    if (folder / FIGURE).is_file():
        (scratch / FIGURE).parent.mkdir()
        shutil.copyfile(folder / FIGURE, scratch / FIGURE)


def write_rules(folder: Path, scratch: Path) -> None:
    """Write a model's own safety rules as they are, where it has any: without them it would answer by the project's.

    Raises:
        UsageError: the file is a link, or something in it is not as it must be.
    """
    rules = folder / SAFETY_RULES
    if rules.is_file():
        check_companion(folder, rules)
        SafetyRules(rules)
        shutil.copyfile(rules, scratch / SAFETY_RULES)


def write_weights(folder: Path, scratch: Path) -> None:
    """Write a model, its tokenizer and its way to answer.

    Raises:
        UsageError: they do not belong together, or a file is damaged.
    """
    engine = PyTorchEngine(folder)
    # The folder's own is written below: transformers refuses to save some that it loads.
    engine.model.generation_config = GenerationConfig()
    write_network(engine.model, engine.tokenizer, scratch)
    engine.default_generation_config.to_json_file(scratch / "generation_config.json")


def write_network(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, scratch: Path) -> None:
    """Write a network with its code and its tokenizer."""
    save_with_code(model, scratch)
    config = json.loads((scratch / "config.json").read_text(encoding="utf-8"))
    declared = (*get_annotations(type(model.config)), *CONFIG_KEYS, *(() if model.can_generate() else LABELS))
    write_object({key: config[key] for key in config if key in declared}, scratch / "config.json")
    save_tokenizer(tokenizer, scratch)


def write_object(content: dict[str, Any], file: Path) -> None:
    """Write a JSON object, as every file of it in a model folder is written."""
    file.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
