"""What is published of a model folder, and which folders are refused for what they hold."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import GenerationConfig

from wenzhen.errors import UsageError
from wenzhen.hub.model_files import write_files
from wenzhen.recipe import load_recipe
from wenzhen.tokenization import save_tokenizer, train_tokenizer

NAME = "tester/doctor"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_published_recipe_names_folders_without_their_paths(model: Path, scratch: Path) -> None:
    vectors = "model.word_vectors=/srv/patients/vectors.txt"
    recipe = load_recipe(str(model / "recipe.yaml"), [vectors, "data.dataset=../records/"])
    recipe.save(model)
    write_files(model, scratch, NAME)
    published = load_recipe(str(scratch / "recipe.yaml"))
    assert (published.output, published.data.dataset) == ("model", "records")
    assert (published.data.tokenizer, published.model.word_vectors) == ("tokenizer", "vectors.txt")
    recipe.output, recipe.data.dataset, recipe.data.tokenizer = "model", "records", "tokenizer"
    recipe.model.word_vectors = "vectors.txt"
    assert published == recipe


def test_code_and_auto_map_are_this_packages_whatever_the_folder_says(model: Path, scratch: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {"AutoModelForSeq2SeqLM": "foreign.Model", "AutoModel": "foreign.Model"}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in ("configuration_transformer.py", "modeling_transformer.py"):
        (model / file).unlink()
    files = write_files(model, scratch, NAME)
    assert [path for path in files if path.endswith(".py")] == [
        "configuration_transformer.py",
        "modeling_transformer.py",
    ]
    assert json.loads((scratch / "config.json").read_text(encoding="utf-8"))["auto_map"] == {
        "AutoConfig": "configuration_transformer.WenzhenConfig",
        "AutoModelForSeq2SeqLM": "modeling_transformer.WenzhenForConditionalGeneration",
    }


def test_the_way_to_answer_is_published_as_it_was(model: Path, scratch: Path) -> None:
    config = GenerationConfig.from_pretrained(model)
    config.update(num_beams=3, length_penalty=0.5, no_repeat_ngram_size=4)
    config.save_pretrained(model)
    card = write_files(model, scratch, NAME)["README.md"]
    before, after = ((folder / "generation_config.json").read_bytes() for folder in (model, scratch))
    assert json.loads(after) == json.loads(before)
    assert b"beam search, 3 beams, length penalty 0.5" in card


def other_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"encoder_layers": 1}), encoding="utf-8")


def other_tokenizer(folder: Path) -> None:
    save_tokenizer(train_tokenizer(["只有几个字"]), folder)


def write(name: str, content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (other_shape, r"the weights in .* are not those of its config\.json"),
        (other_tokenizer, "the tokenizer in .* has 9 tokens, its model"),
        (write("model.safetensors", "torn"), "cannot be loaded"),
        (write("config.json", "{"), "cannot be loaded"),
        (write("recipe.yaml", yaml.safe_dump({"output": "m"})), r"lacks data\.dataset"),
        (write("metrics.json", "{"), r"metrics\.json is not JSON"),
        (write("metrics.json", '{"bleu": 99}'), r"metrics\.json is not of `wenzhen evaluate`"),
        (write("training_log.jsonl", "step 1"), r"training_log\.jsonl is no log"),
        (write("dataset_report.json", "[]"), r"dataset_report\.json must hold a JSON object"),
    ],
)
def test_model_that_is_not_whole(model: Path, scratch: Path, spoil: Callable[[Path], Any], message: str) -> None:
    spoil(model)
    with pytest.raises(UsageError, match=message) as caught:
        write_files(model, scratch, NAME)
    assert "\n" not in str(caught.value)
