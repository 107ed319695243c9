"""Exporting a trained model to CTranslate2: the same answers from smaller weights in a fraction of the time."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import yaml
from huggingface_hub import ModelCard

from wenzhen.answering.conversion import WenzhenConverter
from wenzhen.answering.engines.ctranslate2 import CTranslate2Engine
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import RunError, UsageError
from wenzhen.folders import check_output_folder, published_folder
from wenzhen.models import (
    CHECKPOINTS,
    DATASET_REPORT,
    DEPARTMENTS,
    EVIDENCE,
    EXPORTED_WEIGHTS,
    FIGURE,
    LOG_FILE,
    METRICS_FILE,
    PARTIAL_PREDICTIONS,
    PREDICTIONS_FILE,
    SAFETY_RULES,
    TENSORBOARD,
)
from wenzhen.recipe import RECIPE_FILE

# How far the log-probability of a token may be from PyTorch's, by how the weights are written.
TOLERANCES = {"float32": 1e-3, "float16": 0.1, "int8": 1.0}
# What goes along from the model's folder. Not the metrics, which were measured on other weights, nor the training log,
# which quotes validation questions.
COMPANIONS = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    RECIPE_FILE,
    DATASET_REPORT,
    FIGURE,
    SAFETY_RULES,
)
# Folders that go along, and what they hold that answers do not need.
COMPANION_FOLDERS = (EVIDENCE, DEPARTMENTS)
LEFT_BEHIND = shutil.ignore_patterns(CHECKPOINTS, TENSORBOARD, LOG_FILE, PREDICTIONS_FILE, PARTIAL_PREDICTIONS)
# Of the configuration: what transformers loads the model by, which it cannot here.
TRANSFORMERS_ONLY = ("architectures", "auto_map", "model_type")
CONTENTS = (
    EXPORTED_WEIGHTS,
    "config.json",
    "shared_vocabulary.json",
    "README.md",
    *(name.split("/")[0] for name in COMPANIONS),
    *COMPANION_FOLDERS,
    # What `wenzhen evaluate` adds.
    METRICS_FILE,
    PREDICTIONS_FILE,
    PARTIAL_PREDICTIONS,
)

# At the head of the card.
CARD_SECTION = """## An export to CTranslate2

These are the weights of `{original}` as {quantization} for CTranslate2, which answers many times as fast as PyTorch.
On probes, no token's log-probability was farther than {difference} from the original's.

```bash
wenzhen answer {name} "高血压平时要注意什么？"
```

Without the package `wenzhen`:

```python
import ctranslate2
from transformers import AutoTokenizer

folder = "{name}"  # the folder that holds this card
tokenizer = AutoTokenizer.from_pretrained(folder)
translator = ctranslate2.Translator(folder)
question = tokenizer("高血压平时要注意什么？", truncation=True)["input_ids"]
(result,) = translator.translate_batch([tokenizer.convert_ids_to_tokens(question)], beam_size=1)
print(tokenizer.decode(tokenizer.convert_tokens_to_ids(result.hypotheses[0])))
```

**What stands below is the original's card.** Its way to load the model needs the original's folder, and its results
were measured on the original's weights: `wenzhen evaluate {name}` measures these.
"""


def export_model(folder: Path, output: Path, quantization: str = "int8", overwrite: bool = False) -> float:
    """Export the model of a folder to CTranslate2, and make sure that it computes the same.

    Args:
        folder: what `wenzhen train` left.
        output: the folder to make; it appears whole or not at all.
        quantization: how to write the weights: `float32`, `float16` or `int8`.
        overwrite: whether an earlier export there may be replaced.

    Returns:
        The largest difference between a token's log-probability by the export and by the original, on probes.

    Raises:
        UsageError: the folder holds no model or one that CTranslate2 cannot compute, or the output is not free, or its
            name is not UTF-8.
        RunError: the export computes something else than the original.
    """
    check_output_folder(output, CONTENTS, overwrite)
    check_name(output)
    original = PyTorchEngine(folder)
    original.model.float()
    with published_folder(output, CONTENTS, overwrite) as draft:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        settings = {key: value for key, value in config.items() if key not in TRANSFORMERS_ONLY}
        WenzhenConverter(original.model, original.tokenizer, {**settings, "quantization": quantization}).convert(
            str(draft), quantization=quantization, force=True
        )
        for name in COMPANIONS:
            if (folder / name).is_file():
                (draft / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / name, draft / name)
        for name in COMPANION_FOLDERS:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, draft / name, ignore=LEFT_BEHIND, copy_function=link_or_copy)
        difference = largest_difference(original, CTranslate2Engine(draft))
        # Not "above": a difference that is no number is none that is allowed.
        if not difference <= TOLERANCES[quantization]:
            raise RunError(
                f"the export of {folder} computes something else: a token's log-probability is {difference:.3g} off; "
                f"for {quantization}, {TOLERANCES[quantization]} is allowed"
            )
        card = export_card(folder, output.resolve().name, quantization, difference)
        (draft / "README.md").write_text(card, encoding="utf-8")
    return difference


def link_or_copy(source: str, target: str) -> None:
    """Give a file, which nobody writes into, a second name; copy it where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def check_name(output: Path) -> None:
    """Refuse a folder that CTranslate2, which takes names in UTF-8 alone, could not open."""
    name = str(output.absolute())
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the output's name {name!r} is not valid text (UTF-8); name another folder") from error


def largest_difference(original: PyTorchEngine, exported: CTranslate2Engine) -> float:
    """Return how far the log-probability of any token is from the original's, on [`probes`]."""
    longest = original.model.config.max_position_embeddings
    inputs, labels = probes(len(original.tokenizer), longest, original.tokenizer.eos_token_id)
    rows = zip(
        original.log_probabilities(inputs, labels, batch_size=2),
        exported.log_probabilities(inputs, labels, batch_size=2),
        strict=True,
    )
    # Python's own max() may pass over what is no number.
    return float(np.max([np.abs(one - other).max() for one, other in rows]))


def probes(vocabulary: int, longest: int, end: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return questions and answers of random tokens: the shortest, the longest, some between, and one that was cut.

    Args:
        vocabulary: how many tokens there are; the first four are special.
        longest: what the model reads and writes at most, end token included.
        end: id of the end token.
    """
    random = np.random.default_rng(0)

    def tokens(length: int) -> list[int]:
        return [*random.integers(4, vocabulary, max(length, 1) - 1).tolist(), end]

    lengths = (0, longest // 10, longest // 3, longest, longest)
    inputs, labels = [tokens(length) for length in reversed(lengths)], [tokens(length) for length in lengths]
    labels[-1][-1] = 4
    return inputs, labels


def export_card(folder: Path, name: str, quantization: str, difference: float) -> str:
    """Return the README.md of an export: the original's, with a section of its own above the one on use.

    Args:
        folder: the model's folder.
        name: of the export's folder.
        quantization: of its weights.
        difference: as [`export_model`] returns it.

    Raises:
        UsageError: the header of the original's card is no YAML.
    """
    original = folder.resolve().name
    file = folder / "README.md"
    text = file.read_text(encoding="utf-8") if file.is_file() else f"---\nlanguage: zh\n---\n# {original}\n"
    try:
        card = ModelCard(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"the header of {file} cannot be read: {' '.join(str(error).split())}") from error
    card.data.model_name = name
    card.data.library_name = "ctranslate2"
    # They are the original's.
    card.data.eval_results = None
    card.data.tags = [*(tag for tag in card.data.tags or [] if tag != "custom_code"), "ctranslate2"]
    section = CARD_SECTION.format(
        name=name, original=original, quantization=quantization, difference=f"{difference:.1g}"
    )
    above, use, below = card.text.replace(f"# {original}\n", f"# {name}\n", 1).partition("\n## Use\n")
    card.text = f"{above}\n{section}{use}{below}"
    return str(card)
