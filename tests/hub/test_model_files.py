"""What is published of a model folder, and which folders are refused for what they hold."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoConfig, GenerationConfig

from wenzhen.errors import UsageError
from wenzhen.hub.model_files import write_files
from wenzhen.hub.records import public_name
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
        (write("dataset_report.json", "[]"), r"dataset_report\.json is damaged: expected a JSON object, got \[\]; "),
    ],
)
def test_model_that_is_not_whole(model: Path, scratch: Path, spoil: Callable[[Path], Any], message: str) -> None:
    spoil(model)
    with pytest.raises(UsageError, match=message) as caught:
        write_files(model, scratch, NAME)
    assert "\n" not in str(caught.value)


def change(name: str, **changes: Any) -> Callable[[Path], Any]:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(content | changes), encoding="utf-8")

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (write("metrics.json", "{"), r"metrics\.json is damaged: Expecting"),
        (write("metrics.json", "[" * 100_000), r"metrics\.json is damaged"),
        (write("metrics.json", '{"bleu": 99}'), "it lacks dataset; measure again"),
        (change("metrics.json", loss="abc"), "loss must be a number or null, got 'abc'; measure again"),
        (change("metrics.json", bleu4_char=[1]), r"bleu4_char must be a number or null, got \[1\]"),
        (change("metrics.json", questions="many"), "questions must be a whole number, got 'many'"),
        (change("metrics.json", questions=True), "questions must be a whole number, got True"),
        (change("metrics.json", decoding="x"), "decoding must be an object, got 'x'"),
        (change("metrics.json", decoding={}), r"it lacks decoding\.num_beams"),
        (change("metrics.json", leakage=5), "leakage must be an object or null, got 5"),
        (change("metrics.json", leakage={"questions": 1, "answers": None}), r"leakage\.answers must be a whole"),
        (change("metrics.json", split="test\n# HACK"), "split must be one of train, validation, test, file, got "),
        (change("metrics.json", intervals={"loss": [1]}), r"intervals\.loss must be 2 numbers, got \[1\]"),
        (change("metrics.json", intervals={"loss": "x"}), r"intervals\.loss must be "),
        (change("metrics.json", floors={"random": 5}), r"expected a JSON object, got 5"),
        (change("metrics.json", floors={"random": {"loss": "x"}}), r"it lacks floors\.random\.differences"),
        (change("metrics.json", departments={"内科": {"loss": 1}}), r"it lacks departments\.内科\.questions"),
        (change("metrics.json", bleu4_char_signature="`\n# HACK"), "bleu4_char_signature is none of sacreBLEU"),
        (write("training_log.jsonl", "step 1"), r"training_log\.jsonl is damaged: Expecting"),
        (write("training_log.jsonl", '{"a": 1}'), "it lacks step; take the log"),
        (write("training_log.jsonl", "[1]\n5"), r"expected a JSON object, got \[1\]"),
        (write("training_log.jsonl", '{"step": 1, "epoch": 1, "eval_loss": null}'), "eval_loss must be a number, got"),
        (lambda folder: (folder / "training_log.jsonl").write_bytes(b"\xff\xfe\x00"), "can't decode byte"),
    ],
)
def test_damaged_record_is_named_as_the_user_knows_it(
    model: Path, scratch: Path, spoil: Callable[[Path], Any], message: str
) -> None:
    spoil(model)
    with pytest.raises(UsageError, match=message) as caught:
        write_files(model, scratch, NAME)
    assert str(caught.value).startswith(f"{model}/")
    assert "\n" not in str(caught.value)


def test_what_no_table_names_is_not_published(model: Path, scratch: Path) -> None:
    secret = "/home/alice/secret"
    decoding = {"num_beams": 1, "do_sample": False, "host": secret}
    change("metrics.json", dataset=f"{secret}/ds", host=secret, decoding=decoding)(model)
    change("config.json", secret_path=secret, id2label={"0": secret})(model)
    change("generation_config.json", transformers_version=secret, top_k=7)(model)
    log = model / "training_log.jsonl"
    before = log.read_bytes()
    log.write_bytes(before.replace(b"}", f', "host": "{secret}"}}'.encode()))
    files = write_files(model, scratch, NAME)
    for content in files.values():
        assert b"alice" not in (content.read_bytes() if isinstance(content, Path) else content)
    assert (scratch / "training_log.jsonl").read_bytes() == before
    assert json.loads((scratch / "metrics.json").read_text(encoding="utf-8"))["dataset"] == "ds"
    assert json.loads((scratch / "generation_config.json").read_text(encoding="utf-8"))["top_k"] == 7
    AutoConfig.from_pretrained(scratch)


def test_example_answers_in_the_log_are_not_published(model: Path, scratch: Path) -> None:
    log = model / "training_log.jsonl"
    before = log.read_bytes()
    text = "请打我电话13900000000"
    examples = [{"question": text, "reference": text, "answer": text}]
    lines = [
        {"step": 3, "epoch": 1.5, "examples": examples},
        {"step": 3, "epoch": 1.5, "eval_loss": 4.0, "examples": examples},
    ]
    with log.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (model / "tensorboard").mkdir()
    (model / "tensorboard/events.out.tfevents.1").write_text(text, encoding="utf-8")
    files = write_files(model, scratch, NAME)
    assert "tensorboard" not in {path.split("/")[0] for path in files}
    for content in files.values():
        assert b"13900000000" not in (content.read_bytes() if isinstance(content, Path) else content)
    assert (scratch / "training_log.jsonl").read_bytes() == before


@pytest.mark.parametrize("changes", [{"num_beams": "4"}, {"secret_path": "/home/alice"}, {"eos_token_id": ["/home"]}])
def test_generation_settings_that_are_none_are_refused(model: Path, scratch: Path, changes: dict[str, Any]) -> None:
    change("generation_config.json", **changes)(model)
    with pytest.raises(UsageError, match=next(iter(changes))) as caught:
        write_files(model, scratch, NAME)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("C:\\Users\\alice\\ds", "ds"),
        ("C:\\Users/alice\\ds\\", "ds"),
        ("/home/alice/ds/", "ds"),
        ("ds", "ds"),
        ("/", "unnamed"),
        ("/home/`|<", "unnamed"),
        ("a`b\n# HACK\u2028\ud800", "a b # HACK"),
        ("../问诊 数据", "问诊 数据"),
    ],
)
def test_public_name(path: str, name: str) -> None:
    assert public_name(path) == name


def link(name: str) -> Callable[[Path], Any]:
    def spoil(folder: Path) -> None:
        target = folder.parent / "elsewhere"
        (folder / name).rename(target)
        (folder / name).symlink_to(target)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (link("figures/loss.png"), r"figures/loss\.png is a link"),
        (link("figures"), r"figures/loss\.png is a link, or lies behind one"),
        (link("metrics.json"), r"metrics\.json is a link"),
        (write("figures/loss.png", "root:x:0:0"), r"figures/loss\.png is no PNG picture"),
        (lambda folder: (folder / "safety.yaml").symlink_to("/etc/passwd"), r"safety\.yaml is a link"),
        (write("safety.yaml", "version: 1"), r"the rule file .*safety\.yaml: "),
    ],
)
def test_file_that_is_not_what_it_seems(
    model: Path, scratch: Path, spoil: Callable[[Path], Any], message: str
) -> None:
    spoil(model)
    with pytest.raises(UsageError, match=message):
        write_files(model, scratch, NAME)


def test_folder_behind_a_link_is_published(model: Path, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    assert "figures/loss.png" in write_files(tmp_path / "link", scratch, NAME)
