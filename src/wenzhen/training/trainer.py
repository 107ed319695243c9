"""Training: a recipe in, a model folder out."""

import dataclasses
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from tqdm import tqdm
from transformers import (
    DataCollatorForSeq2Seq,
    EvalPrediction,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import EvalLoopOutput
from transformers.utils import logging

from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import REPORT_FILE
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder
from wenzhen.models import DATASET_REPORT, FIGURE, LOG_FILE, MODEL_FILES, PREDICTIONS_FILE
from wenzhen.models.likelihood import likelihood_metrics, likelihood_statistics
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import RECIPE_FILE, Generation, Recipe, load_recipe, settings
from wenzhen.tokenization import load_tokenizer, save_tokenizer
from wenzhen.training.batching import encode_split, sample_split
from wenzhen.training.log import TrainingLog, draw_losses, read_log
from wenzhen.training.word_vectors import count_word_vectors, initialize_embeddings

CHECKPOINTS = "checkpoints"
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


class WenzhenTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer whose `eval_loss` is the mean over all real tokens, whatever the batches were."""

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of keys that a checkpoint lacks, but not of the other names of tied weights, which are saved once."""
        tied = self.model.all_tied_weights_keys
        load_result.missing_keys[:] = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Put the exact loss in the place of the library's mean of batch means."""
        # Seq2SeqTrainer gathers with the records that fill up the last batch of several processes; they count twice.
        self.gather_function = self.accelerator.gather_for_metrics
        output = super().evaluation_loop(*args, **kwargs)
        prefix = kwargs.get("metric_key_prefix", "eval")
        output.metrics[f"{prefix}_loss"] = output.metrics.pop(f"{prefix}_exact_loss")
        return output


def answer_statistics(logits: tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
    """Reduce a batch's outputs, logits first, to `[batch, 3]` before they are gathered."""
    return likelihood_statistics(logits[0], labels)


def exact_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Sum the statistics of all validation answers up."""
    metrics = likelihood_metrics(np.asarray(prediction.predictions))
    return {"exact_loss": metrics.pop("loss"), **metrics}


def train(recipe: Recipe, *, resume: bool = False, overwrite: bool = False) -> Path:
    """Train a model.

    Args:
        recipe: what to train on what.
        resume: go on from the newest checkpoint in the recipe's output folder.
        overwrite: replace an earlier model there.

    Returns:
        The model folder, ready for `AutoModelForSeq2SeqLM`.

    Raises:
        UsageError: dataset, tokenizer or output folder are not usable.
    """
    output = Path(recipe.output)
    shape = model_shape(recipe)
    if recipe.model.word_vectors and not resume:
        count_word_vectors(Path(recipe.model.word_vectors), shape["d_model"])
    checkpoint = find_checkpoint(output, recipe) if resume else None
    if not resume and not overwrite and is_unfinished(output):
        raise UsageError(f"{output} holds an unfinished run; add --resume to go on, or --overwrite to start again")
    if not resume:
        check_output_folder(output, CONTENTS, overwrite)
    tokenizer = load_tokenizer(Path(recipe.data.tokenizer))
    splits = {name: load_split(Path(recipe.data.dataset), name) for name in ("train", "validation")}

    logging.disable_progress_bar()  # of transformers' file reading and writing; the training's own bar stays
    arguments = training_arguments(recipe)
    # One process of each machine writes the cache, the others read it.
    with arguments.main_process_first(desc="tokenizing"):
        encoded = {name: encode_split(split, tokenizer, recipe.data) for name, split in splits.items()}
    encoded["train"] = sample_split(encoded["train"], recipe.data.max_samples, recipe.seed)
    set_seed(recipe.seed)
    model = build_model(recipe, tokenizer)
    # A resumed run takes its embeddings from the checkpoint.
    if recipe.model.word_vectors and not resume:
        found = initialize_embeddings(model, tokenizer, Path(recipe.model.word_vectors))
        if arguments.process_index == 0:
            tqdm.write(f"{'vectors':<12}{found:,} of {len(tokenizer):,} tokens, from {recipe.model.word_vectors}")
    # An earlier model goes only now that all that can be wrong with the request has been looked at.
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.process_index == 0:
            prepare_output_folder(output, recipe, resume)
    trainer = WenzhenTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded["train"],
        eval_dataset=encoded["validation"],
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=exact_metrics,
        preprocess_logits_for_metrics=answer_statistics,
        callbacks=[TrainingLog(output)],
    )
    if trainer.is_world_process_zero():
        tqdm.write(start_block(recipe, trainer))
    trainer.train(resume_from_checkpoint=checkpoint)
    if trainer.is_world_process_zero():
        save_model(trainer.accelerator.unwrap_model(trainer.model), tokenizer, recipe, output)
        draw_losses(read_log(output), output / FIGURE)
    arguments.distributed_state.wait_for_everyone()
    arguments.distributed_state.destroy_process_group()
    return output


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


def training_arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
    """Translate the recipe's training settings; their names are transformers' own."""
    values = dataclasses.asdict(recipe.training)
    # transformers takes bf16 on a CPU only where it is told that a CPU is meant.
    values["use_cpu"] = values["use_cpu"] or not torch.accelerator.is_available()
    if values["bf16"] == "auto":
        values["bf16"] = supports_bf16(values["use_cpu"])
    return Seq2SeqTrainingArguments(
        **values,
        output_dir=str(Path(recipe.output) / CHECKPOINTS),
        seed=recipe.seed,
        data_seed=recipe.seed,
        eval_strategy="steps",
        save_strategy="steps",
        save_steps=values["eval_steps"],
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        disable_tqdm=not sys.stderr.isatty(),
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=not values["use_cpu"],
    )


def supports_bf16(use_cpu: bool = False) -> bool:
    """Tell whether the hardware computes bfloat16: a GPU of Ampere or newer, or a CPU with AVX512-BF16 or AMX."""
    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> WenzhenForConditionalGeneration:
    """Make an untrained model of the recipe's shape and the tokenizer's vocabulary, and its way to answer."""
    config = WenzhenConfig(
        **model_shape(recipe),
        vocab_size=len(tokenizer),
        max_position_embeddings=max(recipe.data.max_question_length, recipe.data.max_answer_length),
        pad_token_id=tokenizer.pad_token_id,
        unk_token_id=tokenizer.unk_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
    )
    model = WenzhenForConditionalGeneration(config)
    model.generation_config = generation_config(recipe.generation, config, recipe.data.max_answer_length)
    return model


def model_shape(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe's model settings as the configuration takes them.

    Raises:
        UsageError: they fit no model.
    """
    shape = dataclasses.asdict(recipe.model)
    del shape["family"], shape["word_vectors"]
    try:
        WenzhenConfig(**shape)
    except StrictDataclassError as error:
        raise UsageError(f"the recipe's model is impossible: {error.__cause__ or error}") from error
    return shape


def generation_config(generation: Generation, config: WenzhenConfig, max_answer_length: int) -> GenerationConfig:
    """Translate the recipe's way to answer."""
    values = dataclasses.asdict(generation)
    if generation.num_beams == 1:
        # Means nothing to greedy search, and transformers warns of it.
        del values["length_penalty"]
    return GenerationConfig(
        **values,
        max_new_tokens=max_answer_length,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def start_block(recipe: Recipe, trainer: WenzhenTrainer) -> str:
    """Say what is about to be trained, on what, for how long."""
    arguments = trainer.args
    forward = arguments.train_batch_size * arguments.world_size
    batch = forward * arguments.gradient_accumulation_steps
    steps_per_epoch = math.ceil(
        math.ceil(len(trainer.train_dataset) / forward) / arguments.gradient_accumulation_steps
    )
    steps = arguments.max_steps if arguments.max_steps > 0 else math.ceil(arguments.num_train_epochs * steps_per_epoch)
    rows: Sequence[tuple[str, str]] = (
        ("parameters", f"{trainer.model.num_parameters():,}"),
        ("vocabulary", f"{trainer.model.config.vocab_size:,} tokens"),
        ("pairs", f"{len(trainer.train_dataset):,} to train on, {len(trainer.eval_dataset):,} to validate"),
        ("steps", f"{steps:,} of {batch} pairs ({steps / steps_per_epoch:.1f} epochs)"),
        (
            "device",
            f"{arguments.device.type}, {arguments.world_size} process(es), {'bf16' if arguments.bf16 else 'fp32'}",
        ),
        ("output", recipe.output),
    )
    return "\n".join(f"{name:<12}{value}" for name, value in rows)


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
