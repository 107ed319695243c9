"""What of a model folder goes into a Space: all that answering needs, each file anew with the keys that are known."""

import json
import shutil
from inspect import get_annotations
from pathlib import Path

from wenzhen.answering.engines.ctranslate2 import CTranslate2Engine
from wenzhen.answering.evidence import EvidenceIndex
from wenzhen.answering.evidence.index import META_FILE
from wenzhen.errors import UsageError
from wenzhen.folders import name_of
from wenzhen.hub.card import plain
from wenzhen.hub.companions import check_companion
from wenzhen.hub.model import check_folder
from wenzhen.hub.model_card import model_card
from wenzhen.hub.model_files import write_network, write_object, write_records, write_rules, write_weights
from wenzhen.hub.records import read_object
from wenzhen.models import CLASSIFIER_FILES, DATASET_REPORT, DEPARTMENTS, EVIDENCE, EXPORTED_WEIGHTS
from wenzhen.models.loading import load_classifier
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.tokenization import load_tokenizer, save_tokenizer

# What an export's configuration holds besides the fields of its model's.
EXPORT_KEYS = (
    "add_source_bos",
    "add_source_eos",
    "bos_token",
    "decoder_start_token",
    "dtype",
    "eos_token",
    "layer_norm_epsilon",
    "multi_query_attention",
    "quantization",
    "transformers_version",
    "unk_token",
)
# Of the dataset's report: not what names the files that it was made from.
REPORT_KEYS = (
    "read",
    "kept",
    "rejected",
    "splits",
    "departments",
    "split",
    "seed",
    "cleaning",
    "contacts",
    "too_long",
    "duplicates",
    "leakage",
    "lengths",
    "characters",
)


def write_model(folder: Path, output: Path) -> None:
    """Write what of a model folder goes into a Space, but for the consultations that it has indexed.

    Args:
        folder: a model folder, or an export to CTranslate2.
        output: an empty folder.

    Raises:
        UsageError: the folder holds no model or a damaged one, or a file is a link.
    """
    exported = (folder / EXPORTED_WEIGHTS).is_file()
    if not exported:
        check_folder(folder)
    write_records(folder, output)
    write_rules(folder, output)
    if (folder / DATASET_REPORT).is_file():
        report = read_object(folder / DATASET_REPORT, "take the dataset's own report.json, or remove it")
        write_object({key: plain(report[key]) for key in REPORT_KEYS if key in report}, output / DATASET_REPORT)
    if exported:
        write_export(folder, output)
    else:
        write_weights(folder, output)
        card = model_card(output, plain(name_of(folder)), output / DATASET_REPORT)
        (output / "README.md").write_text(card, encoding="utf-8")
    if (folder / DEPARTMENTS).is_dir():
        for name in CLASSIFIER_FILES:
            check_companion(folder, folder / DEPARTMENTS / name)
        write_classifier(folder / DEPARTMENTS, output / DEPARTMENTS)


def write_export(folder: Path, output: Path) -> None:
    """Write an export to CTranslate2.

    Raises:
        UsageError: see [`write_model`].
    """
    for name in (EXPORTED_WEIGHTS, "shared_vocabulary.json"):
        check_companion(folder, folder / name)
        shutil.copyfile(folder / name, output / name)
    engine = CTranslate2Engine(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    declared = (*get_annotations(WenzhenConfig), *EXPORT_KEYS)
    write_object({key: config[key] for key in config if key in declared}, output / "config.json")
    engine.default_generation_config.to_json_file(output / "generation_config.json")
    save_tokenizer(engine.tokenizer, output)


def write_classifier(folder: Path, output: Path) -> None:
    """Write a classifier of departments.

    Raises:
        UsageError: the folder holds none, or a damaged one.
    """
    output.mkdir()
    write_network(load_classifier(folder), load_tokenizer(folder), output)


def evidence_files(folder: Path) -> dict[str, Path]:
    """Return the files of a model's index of consultations by their paths in its folder.

    Raises:
        UsageError: it has none or a damaged one, or a file is a link.
    """
    index = folder / EVIDENCE
    if not index.is_dir():
        raise UsageError(f"{folder} holds no {EVIDENCE}; make it with: wenzhen index {folder}")
    paths = [index / name for name in (META_FILE, *EvidenceIndex(index).meta["files"])]
    for path in paths:
        check_companion(folder, path)
    return {path.relative_to(folder).as_posix(): path for path in paths}
