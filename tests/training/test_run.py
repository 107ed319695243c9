"""Whole training runs of seconds."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import DatasetDict
from transformers import AutoConfig, GenerationConfig, Seq2SeqTrainingArguments

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.corpus.loading import load_split
from wenzhen.errors import RunError, UsageError
from wenzhen.evaluation.evaluator import evaluate_model
from wenzhen.models import MODEL_FILES
from wenzhen.recipe import Recipe, load_recipe
from wenzhen.training.arguments import training_arguments
from wenzhen.training.log import read_log
from wenzhen.training.output import is_unfinished
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
SHORT = ("training.max_steps=6", "training.eval_steps=3", "training.logging_steps=1", "model.dropout=0.1")


def test_eight_pairs_are_learned_by_heart(make_recipe: MakeRecipe, dataset: Path, tmp_path: Path) -> None:
    rows = load_split(dataset, "train").select(range(8))
    DatasetDict(train=rows, validation=rows, test=rows).save_to_disk(tmp_path / "eight")
    recipe = make_recipe(
        f"output={tmp_path / 'model'}",
        f"data.dataset={tmp_path / 'eight'}",
        "model.d_model=64",
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "training.max_steps=100",
        "training.per_device_train_batch_size=8",
        "training.learning_rate=5e-3",
        "training.eval_steps=100",
    )
    output = train(recipe)
    assert read_log(output)[-1]["eval_loss"] < 0.05
    engine = PyTorchEngine(output)
    answers = dict(engine.generate(list(rows["question"])))
    assert [answers[index].text for index in range(8)] == rows["answer"]
    assert all(answer.ended for answer in answers.values())


def test_same_seed_and_resume_give_the_same_bytes(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    first, second = (train(make_recipe(f"output={tmp_path / name}", *SHORT)) for name in ("first", "second"))
    log, weights = read_log(first), (first / "model.safetensors").read_bytes()
    assert read_log(second) == log
    assert (second / "model.safetensors").read_bytes() == weights
    assert [entry["step"] for entry in log if "loss" in entry] == [1, 2, 3, 4, 5, 6]

    # As if the run had been killed while it wrote the checkpoint of step 6, the trainer's state being the last file.
    (second / "checkpoints" / "checkpoint-6" / "trainer_state.json").unlink()
    (second / "model.safetensors").unlink()
    train(make_recipe(f"output={second}", *SHORT), resume=True)
    assert read_log(second) == log
    assert (second / "model.safetensors").read_bytes() == weights

    other = train(make_recipe(f"output={tmp_path / 'other'}", "seed=7", *SHORT))
    assert (other / "model.safetensors").read_bytes() != weights


def test_model_folder_is_complete(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *SHORT, "generation.num_beams=3")
    output = train(recipe)
    files = {path.relative_to(output).as_posix() for path in output.rglob("*") if "checkpoints" not in path.parts}
    assert files >= {
        "config.json",
        "configuration_transformer.py",
        "figures/loss.png",
        "generation_config.json",
        "model.safetensors",
        "modeling_transformer.py",
        "recipe.yaml",
        "tokenizer.json",
        "tokenizer_config.json",
        "training_log.jsonl",
    }
    assert load_recipe(str(output / "recipe.yaml")) == recipe
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    assert config["use_cache"] is True
    assert config["auto_map"]["AutoModelForSeq2SeqLM"] == "modeling_transformer.WenzhenForConditionalGeneration"
    generation = GenerationConfig.from_pretrained(output)
    assert (generation.num_beams, generation.length_penalty, generation.max_new_tokens) == (3, 0.75, 80)
    config = AutoConfig.from_pretrained(output)
    tokenizer = PyTorchEngine(output).tokenizer
    for name in ("pad", "unk", "bos", "eos"):
        assert getattr(config, f"{name}_token_id") == getattr(tokenizer, f"{name}_token_id")
    assert config.vocab_size == len(tokenizer)
    assert tokenizer.model_max_length == 96
    assert not is_unfinished(output)
    for name in MODEL_FILES:
        # What the engine refuses as unfinished can be resumed.
        (output / name).rename(output / "aside")
        assert is_unfinished(output)
        (output / "aside").rename(output / name)


def test_logged_validation_loss_is_the_evaluators(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    """The Trainer's loop and the evaluator measure the same mean over tokens, with batches of other sizes."""
    recipe = make_recipe(f"output={tmp_path / 'model'}", *SHORT, "training.per_device_eval_batch_size=3")
    output = train(recipe)
    best = min(entry["eval_loss"] for entry in read_log(output) if "eval_loss" in entry)
    metrics = evaluate_model(output, output, split="validation", batch_size=7, floors=False)
    assert metrics["loss"] == pytest.approx(best, rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(best), rel=1e-5)


def test_best_model_is_kept(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    """A learning rate that grows absurd spoils the last steps; the model saved is the better one from before."""
    recipe = make_recipe(
        f"output={tmp_path / 'model'}",
        *SHORT,
        "training.lr_scheduler_type=constant_with_warmup",
        "training.warmup_steps=6",
        "training.learning_rate=1",
        "training.eval_steps=1",
    )
    output = train(recipe)
    losses = [entry["eval_loss"] for entry in read_log(output) if "eval_loss" in entry]
    assert min(losses) < losses[-1]
    metrics = evaluate_model(output, output, split="validation", floors=False)
    assert metrics["loss"] == pytest.approx(min(losses), rel=1e-5)


def test_training_settings_reach_transformers(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(
        f"output={tmp_path}",
        "training.learning_rate=1e-3",
        "training.adam_beta2=0.9",
        "training.gradient_accumulation_steps=4",
        "training.train_sampling_strategy=group_by_length",
        "training.label_smoothing_factor=0.1",
    )
    arguments = training_arguments(recipe)
    assert isinstance(arguments, Seq2SeqTrainingArguments)
    assert (arguments.learning_rate, arguments.adam_beta2, arguments.gradient_accumulation_steps) == (1e-3, 0.9, 4)
    assert (arguments.train_sampling_strategy, arguments.label_smoothing_factor) == ("group_by_length", 0.1)
    assert not arguments.bf16


def test_output_that_holds_a_model_needs_overwrite(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *SHORT, "training.max_steps=1")
    train(recipe)
    with pytest.raises(UsageError, match="--overwrite"):
        train(recipe)
    train(recipe, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.docx").touch()
    recipe.output = str(tmp_path / "mine")
    with pytest.raises(UsageError, match="other files"):
        train(recipe, overwrite=True)
    assert (tmp_path / "mine" / "thesis.docx").exists()


def test_resume_refuses_what_it_cannot_go_on_with(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(f"output={tmp_path / 'model'}", *SHORT)
    with pytest.raises(UsageError, match="no run to go on with"):
        train(recipe, resume=True)
    output = train(recipe)
    with pytest.raises(UsageError, match="has finished"):
        train(recipe, resume=True)
    (output / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"unfinished run; add --resume to go on, or --overwrite"):
        train(recipe)
    with pytest.raises(UsageError, match="its training is unfinished"):
        PyTorchEngine(output)
    with pytest.raises(UsageError, match=r"model\.d_model was 32, not 64"):
        train(make_recipe(f"output={output}", *SHORT, "model.d_model=64"), resume=True)
    with pytest.raises(UsageError, match=r"training.learning_rate was 0.002, not 0.5"):
        train(make_recipe(f"output={output}", *SHORT, "training.learning_rate=0.5"), resume=True)
    shutil.rmtree(output / "checkpoints")
    with pytest.raises(UsageError, match="before its first checkpoint; start it again with --overwrite"):
        train(recipe, resume=True)


def test_a_loss_that_is_no_number_stops_the_run(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(
        f"output={tmp_path / 'model'}", *SHORT, "training.learning_rate=1e30", "training.lr_scheduler_type=constant"
    )
    with pytest.raises(RunError, match=r"the loss became nan in step \d"):
        train(recipe)
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_an_earlier_model_survives_a_request_that_fails(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    output = train(make_recipe(f"output={tmp_path / 'model'}", *SHORT, "training.max_steps=1"))
    weights = (output / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="no tokenizer"):
        train(make_recipe(f"output={output}", f"data.tokenizer={tmp_path}"), overwrite=True)
    (output / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"notes\.txt"):
        train(make_recipe(f"output={output}"), overwrite=True)
    assert (output / "model.safetensors").read_bytes() == weights


def test_impossible_shape_is_refused_before_anything_is_made(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`d_model` must be a multiple of `attention_heads`, got 34 and 4"):
        train(make_recipe(f"output={tmp_path / 'model'}", "model.d_model=34"))
    assert not (tmp_path / "model").exists()
