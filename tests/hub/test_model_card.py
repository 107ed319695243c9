"""A model's card."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from hub_client import usage
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import UsageError
from wenzhen.evaluation.evaluator import evaluate_model
from wenzhen.hub.model_card import model_card, write_model_card
from wenzhen.recipe import Recipe, load_recipe
from wenzhen.tokenization import load_tokenizer
from wenzhen.training.initial_model import build_model
from wenzhen.training.output import save_model

NAME = "tester/doctor"


@pytest.fixture
def folder(measured_folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "my doctor"
    shutil.copytree(measured_folder, copy)
    return copy


def written(folder: Path) -> ModelCard:
    write_model_card(folder)
    return ModelCard.load(folder / "README.md")


def sentences(card: str) -> str:
    """Return a card with its line breaks read as spaces."""
    return " ".join(card.split())


def pushed(folder: Path, report: dict[str, Any] | None = None, name: str = NAME) -> str:
    """Return the card for a repository, with a dataset's report or without one."""
    file = folder / "dataset_report.json"
    file.unlink(missing_ok=True)
    if report is not None:
        file.write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    return model_card(folder, name, file)


def edit(file: Path, **changes: Any) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(content | changes, ensure_ascii=False), encoding="utf-8")


def test_header(folder: Path) -> None:
    data = written(folder).data
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert (data.language, data.license, data.library_name) == ("zh", "unknown", "transformers")
    assert data.pipeline_tag == "text-generation"
    assert {"medical", "question-answering", "custom_code"} <= set(data.tags)
    assert data.model_name == "my doctor"
    results = {result.metric_type: result for result in data.eval_results}
    assert results.keys() == {"bleu", "rouge", "perplexity"}
    assert results["bleu"].metric_value == metrics["bleu4_char"]
    assert results["perplexity"].metric_value == metrics["perplexity"]
    for result in results.values():
        assert (result.dataset_name, result.dataset_split) == ("dataset", "test")
        assert result.dataset_args == {"questions": 24}


def test_local_cards_code_runs_as_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    code = usage(written(folder).text)
    assert 'folder = "my doctor"' in code
    exec(code, {})
    shape, *text = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"torch\.Size\(\[1, \d+\]\)", shape)
    (_, answer), *_ = PyTorchEngine(folder).generate(["高血压平时要注意什么？"])
    assert "\n".join(text) == answer.text


def test_card_warns(folder: Path) -> None:
    text = sentences(written(folder).text)
    for sentence in (
        "A machine writes every answer. No doctor reads it before you do",
        "Do not use it to diagnose, to treat, or in an emergency: in China call 120.",
        "医疗免责声明",
        "本模型的所有回答均由机器自动生成，未经医生审核",
        "请立即拨打120",
        "runs `configuration_transformer.py` and `modeling_transformer.py` of this folder with your rights",
        "**Not measured**: whether an answer is medically right or safe",
        "It reads at most 95 tokens of a question, the code above cutting off the rest and `wenzhen answer` refusing "
        "the question, and writes at most 80.",
    ):
        assert sentence in text


def test_pushed_card_names_the_repository_and_a_revision(folder: Path) -> None:
    text = pushed(folder)
    assert 'name = "tester/doctor"\nrevision = "main"' in usage(text)
    assert usage(text).count("revision=revision, trust_remote_code=True") == 2
    assert "pin `revision` to the commit that you have read" in text
    assert "\n# doctor\n" in text
    assert "my doctor" not in text


def test_model_and_training_are_described(folder: Path) -> None:
    model = PyTorchEngine(folder).model
    rows = set(written(folder).text.splitlines())
    # Each tensor once, however many modules share it.
    parameters = sum({tensor.data_ptr(): tensor.numel() for tensor in model.parameters()}.values())
    assert {
        f"| parameters | {parameters:,}, as float32 in safetensors |",
        "| layers | 2 in the encoder, 2 in the decoder |",
        "| width | 32, 4 heads of 8 each |",
        "| feed-forward sublayers | 64 wide, relu |",
        "| normalization (`norm`) | post-norm: LayerNorm of every sublayer's sum with its input |",
        "| positions (`positions`) | sinusoidal, a fixed table; 96 at most |",
        "| attention (`attention_score`) | scaled dot product |",
        "| embeddings (`tie_word_embeddings`) | one table shared by encoder, decoder and output |",
        f"| vocabulary | {model.config.vocab_size:,} tokens, one vocabulary for questions and answers |",
        "| done | 3 steps, 1.50 epochs |",
        "| learning rate | 0.002, linear, warm-up 5.0% of the steps |",
        "| precision | float32 |",
        "| tokenizer | `tokenizer` |",
    } <= rows
    assert (
        "The weights are those of step 2, whose validation loss of 4.5000 nats per token is the lowest of 3 measured."
    ) in rows


def test_every_choice_of_the_architecture_is_told(
    make_recipe: Callable[..., Recipe], tokenizer_folder: Path, tmp_path: Path
) -> None:
    recipe = make_recipe(
        "model.norm=pre",
        "model.positions=learned",
        "model.attention_score=additive",
        "model.activation_function=gelu",
        "model.tie_word_embeddings=false",
        "model.word_vectors=/srv/vectors/medical.txt",
        "data.with_title=true",
        "data.max_samples=50",
        "training.max_steps=7",
        f"output={tmp_path / 'model'}",
    )
    tokenizer = load_tokenizer(tokenizer_folder)
    model = build_model(recipe, tokenizer)
    (tmp_path / "model").mkdir()
    recipe.save(tmp_path / "model")
    save_model(model, tokenizer, recipe, tmp_path / "model")
    text = pushed(tmp_path / "model")
    size, width = len(tokenizer), 32
    # Queries, keys, values and outputs; one vector for each head; weights and biases.
    attention = 4 * (width * width + width) + width
    feed_forward = 2 * width * 64 + 64 + width
    norm = 2 * width
    layers = 2 * (attention + feed_forward + 2 * norm) + 2 * (2 * attention + feed_forward + 3 * norm)
    parameters = layers + 2 * norm + 3 * size * width + 2 * 96 * width
    for words in (
        f"| parameters | {parameters:,}, as",
        "pre-norm: LayerNorm before every sublayer and behind the last layer |",
        "learned, a trained table for each side; 96 at most |",
        "additive, vᵀtanh(k + q) |",
        "64 wide, gelu |",
        "separate tables for encoder, decoder and output |",
        "trained from word vectors (`medical.txt`) on the",
        "a short title, a line break and the question",
        "at most 50, drawn at random from the train split",
        "| asked for | 7 steps of",
        "Its report is not in the model's folder",
        "Not measured yet: `wenzhen evaluate doctor`.",
    ):
        assert words in text
    assert "/srv" not in text
    assert "The weights are those of step" not in text
    assert "![" not in text


def test_a_fine_tuned_model_says_from_which_and_token_budgets_are_told(folder: Path) -> None:
    recipe = load_recipe(str(folder / "recipe.yaml"), ["model.from=/srv/patients/base", "training.max_steps=7"])
    recipe.training.max_tokens_per_batch = 12_000
    recipe.save(folder)
    text = sentences(written(folder).text)
    assert "trained from the model `base` on the question-answer pairs" in text
    assert "| asked for | 7 steps of up to 12,000 tokens per device × 1 (the" in text
    assert "/srv" not in text


def test_data_are_told_from_the_datasets_report(folder: Path, report: dict[str, Any]) -> None:
    (folder / "dataset_report.json").write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    card = written(folder).text
    text, rows = sentences(card), set(card.splitlines())
    kept = sum(report["splits"].values())
    for sentence in (
        f"{kept + 1_005:,} records from 1 file = {kept} kept + 1,005 rejected.",
        "remains of HTML 31 records; control characters not done; white space 32 records",
        "contacts masked 34 records",
        "1,000 records repeat another in every field and were dropped; 17 share a question or an answer with",
        "18 are nearly the same as another",
        "stay on one side of the split. Asked for were 30% for test and 5% of the rest for validation; seed 42.",
        "were looked for by their form and masked, which does not find every one",
        f"all {report['splits']['train']} of the train split",
        f"on 24 of the {report['splits']['test']} questions, drawn at random, of the test split of `dataset`.",
    ):
        assert sentence in text
    counts = " | ".join(map(str, report["splits"].values()))
    assert {
        "| duplicate | 1,000 |",
        "| questions | 0 | 0 | 3 | 7 |",
        "| near duplicates | 1 | 2 | 3 | 7 |",
        f"| 男科 | {counts} | 1 |",
        f"| all | {counts} | {kept} |",
    } <= rows
    assert "a|b.csv" not in card.replace("\\", "")
    assert "\n\n\n" not in card


def test_contacts_that_were_left_in_are_told(folder: Path, report: dict[str, Any]) -> None:
    report["cleaning"]["contacts"] = None
    assert "**Contacts were not masked**" in pushed(folder, report)


@pytest.mark.parametrize("given", ["nothing more", "null"])
def test_report_that_says_little(folder: Path, report: dict[str, Any], given: str) -> None:
    needed = ("read", "kept", "rejected", "splits")
    little = {key: report[key] if key in needed else None for key in report if key in needed or given == "null"}
    text = pushed(folder, little)
    assert f"| train | {report['splits']['train']} |" in text
    assert "**Contacts were not masked**" in text
    assert "None" not in text
    assert "\n\n\n" not in text


def test_metrics_are_told_with_what_they_mean_and_how_they_were_measured(folder: Path) -> None:
    card = written(folder).text
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    low, high = metrics["intervals"]["loss"]
    floors = " - |" * len(metrics["floors"])
    row = f"| loss | {metrics['loss']:.4f} | {low:.4f} to {high:.4f} |{floors} nats per real token |"
    assert row in card
    assert f"| {metrics['floors']['random']['rougeL_char']:.2f} | " in card
    assert all(f"- {line}\n" in card.replace("my doctor", "model") for line in metrics["verdicts"])
    assert "| bleu4_char |" in card
    assert f"sacreBLEU signature: `{metrics['bleu4_char_signature']}`." in card
    assert "written by greedy search, of at most 80 tokens." in sentences(card)
    assert "Of the split's records, 0 share their question with the training split, and 0 their answer." in card
    # The sample corpus lists its facts.
    assert "if `dataset` was made of it, no value here says anything" in card


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"leakage": {"questions": 7, "answers": 9}}, "7 share their question with the training split, and 9 their"),
        ({"split": "validation"}, "By this split the best weights were chosen"),
        ({"split": "train"}, "the values say nothing about new ones. Not measured yet: the test split."),
        ({"dataset": "clinic"}, "`clinic`, another dataset than the one that it was trained on"),
        ({"dataset": "clinic"}, "Whether the two datasets share texts was not looked at."),
        ({"decoding": {"num_beams": 4, "do_sample": False}}, "written by beam search with 4 beams"),
        ({"decoding": {"num_beams": 1, "do_sample": True}}, "written by sampling"),
    ],
)
def test_what_qualifies_the_metrics_is_told(folder: Path, changes: dict[str, Any], words: str) -> None:
    assert words not in sentences(written(folder).text)
    edit(folder / "metrics.json", **changes)
    assert words in sentences(written(folder).text)


def test_card_before_any_measurement(folder: Path) -> None:
    for name in ("metrics.json", "training_log.jsonl", "figures/loss.png"):
        (folder / name).unlink()
    card = written(folder)
    assert card.data.eval_results is None
    assert "Not measured yet: `wenzhen evaluate my doctor`." in card.text
    for absent in ("The weights are those of step", "training_log", "![", "sacreBLEU", "None"):
        assert absent not in card.text
    assert "\n\n\n" not in card.text


def test_leak_that_the_dataset_reports_reaches_the_card(folder: Path, dataset: Path, tmp_path: Path) -> None:
    leaky = tmp_path / dataset.name
    shutil.copytree(dataset, leaky)
    edit(
        leaky / "report.json",
        leakage={"questions": {"validation": 1, "test": 7}, "answers": {"validation": 2, "test": 9}},
    )
    metrics = evaluate_model(folder, folder, dataset=leaky, limit=3)
    assert metrics["leakage"] == {"questions": 7, "answers": 9}
    assert "7 share their question with the training split, and 9 their answer." in written(folder).text


def test_training_keeps_the_datasets_report_for_the_card(model_folder: Path, dataset: Path, tmp_path: Path) -> None:
    assert (model_folder / "dataset_report.json").read_bytes() == (dataset / "report.json").read_bytes()
    recipe = load_recipe(str(model_folder / "recipe.yaml"), [f"data.dataset={tmp_path / 'without a report'}"])
    tokenizer = load_tokenizer(model_folder)
    save_model(build_model(recipe, tokenizer), tokenizer, recipe, tmp_path)
    assert not (tmp_path / "dataset_report.json").exists()
    assert (tmp_path / "model.safetensors").is_file()


HACK = "x`\n---\n# HACK <script>|![a](b)"
CLEAN = "x --- # HACK script ![a](b)"


def test_names_from_elsewhere_stay_names(folder: Path, report: dict[str, Any]) -> None:
    recipe = load_recipe(str(folder / "recipe.yaml"))
    recipe.data.dataset = recipe.data.tokenizer = recipe.model.word_vectors = f"C:\\Users\\alice\\{HACK}"
    recipe.save(folder)
    edit(folder / "metrics.json", dataset=f"/home/alice/{HACK}")
    edit(folder / "config.json", transformers_version=HACK)
    report["rejected"] = {HACK: 1_005}
    report["per_department"] = {HACK: next(iter(report["per_department"].values()))}
    report["seed"] = HACK
    (folder / "README.md").write_text(card := pushed(folder, report), encoding="utf-8")
    loaded = ModelCard.load(folder / "README.md")
    assert {(result.dataset_name, result.dataset_type) for result in loaded.data.eval_results} == {(CLEAN, CLEAN)}
    assert loaded.data.model_name == "doctor"
    assert card.startswith("---\n") and card.count("\n---\n") == 1
    assert not [line for line in card.splitlines() if line.startswith("# HACK")]
    for trace in ("<script", "alice", "`x`", "x`\n"):
        assert trace not in card
    for whole in (f"`{CLEAN}`", f"| {CLEAN} | 1,005 |", f"| tokenizer | `{CLEAN}` |", f"seed {CLEAN}."):
        assert whole in card


def test_damaged_report_is_named(folder: Path) -> None:
    for report in ({"x": 1}, {"splits": 5}, {"read": 1, "kept": 1, "rejected": {}, "splits": {"train": "x"}}):
        with pytest.raises(UsageError, match=r"dataset_report\.json is damaged: .*; take the dataset's own") as caught:
            pushed(folder, report)
        assert "\n" not in str(caught.value)
