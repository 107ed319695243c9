"""Training: a recipe in, a model folder out."""

import math
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm
from transformers import DataCollatorForSeq2Seq, set_seed
from transformers.utils import logging

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder
from wenzhen.models import FIGURE
from wenzhen.recipe import Recipe
from wenzhen.tokenization import load_tokenizer
from wenzhen.training.arguments import training_arguments
from wenzhen.training.batching import encode_split, sample_split
from wenzhen.training.initial_model import build_model, model_shape
from wenzhen.training.log import TrainingLog, draw_losses, read_log
from wenzhen.training.output import CONTENTS, find_checkpoint, is_unfinished, prepare_output_folder, save_model
from wenzhen.training.trainer import WenzhenTrainer, answer_statistics, exact_metrics
from wenzhen.training.word_vectors import count_word_vectors, initialize_embeddings


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
