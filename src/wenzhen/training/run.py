"""Training: a recipe in, a model folder out."""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from tqdm import tqdm
from transformers import (
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    set_seed,
)
from transformers.utils import logging

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder
from wenzhen.models import FIGURE
from wenzhen.recipe import RECIPE_FILE, Recipe, load_recipe
from wenzhen.tokenization import load_tokenizer
from wenzhen.training.arguments import training_arguments
from wenzhen.training.batching import encode_split, sample_split
from wenzhen.training.checkpoints import Manifest
from wenzhen.training.clock import TrainingClock
from wenzhen.training.examples import ExampleAnswers
from wenzhen.training.figure import draw_losses
from wenzhen.training.initial_model import build_model, generation_config, model_shape
from wenzhen.training.lock import locked
from wenzhen.training.log import TrainingLog, read_log
from wenzhen.training.order import Order, training_order
from wenzhen.training.output import (
    CONTENTS,
    describe_content,
    find_checkpoint,
    is_unfinished,
    prepare_output_folder,
    save_model,
    size_of,
)
from wenzhen.training.pretrained import Pretrained, adopt_shape, check_shape, load_pretrained, shape_of, take_over
from wenzhen.training.progress import Progress
from wenzhen.training.summary import start_block
from wenzhen.training.trackers import check_tracker, tracker
from wenzhen.training.trainer import (
    WenzhenTrainer,
    answer_statistics,
    department_metrics,
    department_statistics,
    exact_metrics,
)
from wenzhen.training.word_vectors import count_word_vectors, initialize_embeddings


def train(recipe: Recipe, *, resume: bool = False, overwrite: bool = False) -> Path:
    """Train a model.

    Args:
        recipe: what to train on what.
        resume: go on from the newest checkpoint in the recipe's output folder.
        overwrite: replace an earlier model there.

    Returns:
        The model folder, ready for `AutoModelForSeq2SeqLM`; of the task `department`, for
        `AutoModelForSequenceClassification`.

    Raises:
        UsageError: dataset, tokenizer, the model to begin with or output folder are not usable.
    """
    check_tracker(recipe.training.report_to)
    recipe, pretrained = find_beginning(recipe, resume)
    arguments = training_arguments(recipe)
    with locked(Path(recipe.output)):
        return train_alone(recipe, arguments, pretrained, resume, overwrite)


def train_alone(
    recipe: Recipe, arguments: Seq2SeqTrainingArguments, pretrained: Pretrained | None, resume: bool, overwrite: bool
) -> Path:
    """Train in an output folder that is no other run's; see [`train`]."""
    output = Path(recipe.output)
    checkpoint = check_output(recipe, resume, overwrite)
    tokenizer = find_tokenizer(recipe, pretrained, checkpoint)
    splits = {name: load_split(Path(recipe.data.dataset), name) for name in ("train", "validation")}

    logging.disable_progress_bar()  # of transformers' file reading and writing; the training's own bar stays
    # One process of each machine writes the cache, the others read it.
    with arguments.main_process_first(desc="tokenizing"):
        encoded = {name: encode_split(split, tokenizer, recipe.data, recipe.task) for name, split in splits.items()}
    encoded["train"] = sample_split(encoded["train"], recipe.data.max_samples, recipe.seed)
    encoded["validation"] = sample_split(encoded["validation"], recipe.data.max_validation_samples, recipe.seed)
    settings = recipe.training
    order = training_order(encoded["train"], arguments, settings.max_tokens_per_batch, settings.pad_to_multiple_of)
    departments = splits["train"].features["department"].names
    set_seed(recipe.seed)
    model = build_model(recipe, tokenizer, departments)
    if checkpoint is None:
        beginning = ("begins with", initialize(model, tokenizer, recipe, pretrained))
    else:
        # Its weights come with the training's state.
        beginning = ("goes on", f"from step {Manifest.read(Path(checkpoint)).step:,}")
    splits["train"] = sample_split(splits["train"], recipe.data.max_samples, recipe.seed)
    trainer = make_trainer(recipe, arguments, model, tokenizer, encoded, order, splits)
    trainer.check_start(checkpoint, freed=0 if resume else size_of(output))
    # An earlier model goes only now that all that can be wrong with the request has been looked at.
    with arguments.main_process_first(local=False, desc="preparing the output folder"):
        if arguments.process_index == 0:
            prepare_output_folder(output, recipe, resume)
    if trainer.is_world_process_zero():
        tqdm.write(start_block(recipe, trainer, beginning))
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        trainer.pop_callback(Progress).close()
    # Where each process holds a part of the weights, all have to bring them together.
    weights = trainer.accelerator.get_state_dict(trainer.model) if trainer.is_fsdp_enabled else None
    if trainer.is_world_process_zero():
        if weights is not None:
            model = build_model(recipe, tokenizer, departments)
            model.load_state_dict(weights)
        save_model(model, tokenizer, recipe, output)
        # By the name of the picture, which comes last, a run is known to have finished.
        draft = (output / FIGURE).with_stem(f".{Path(FIGURE).stem}")
        draw_losses({output.resolve().name: read_log(output)}, draft)
        draft.replace(output / FIGURE)
    arguments.distributed_state.wait_for_everyone()
    # Were the wrapped model to let go of the processes' group last, PyTorch could wait for itself for ever.
    del trainer
    gc.collect()
    arguments.distributed_state.destroy_process_group()
    return output


def find_beginning(recipe: Recipe, resume: bool) -> tuple[Recipe, Pretrained | None]:
    """Return the recipe with the shape of the model that it begins with, if it does, and that model.

    A resumed run needs the model no more: its shape is in the recipe that lies in the output folder.

    Raises:
        UsageError: the model cannot be begun with, or the recipe's own shape is impossible.
    """
    if recipe.model.from_ is None:
        model_shape(recipe)
        return recipe, None
    if recipe.model.word_vectors:
        raise UsageError("can't begin with both model.word_vectors and model.from; choose one")
    if resume:
        begun = Path(recipe.output) / RECIPE_FILE
        return (adopt_shape(recipe, vars(load_recipe(str(begun)).model)) if begun.is_file() else recipe), None
    if Path(recipe.model.from_).resolve().is_relative_to(Path(recipe.output).resolve()):
        raise UsageError(f"the output {recipe.output} holds the model to begin with; name another folder")
    pretrained = load_pretrained(recipe.model.from_)
    recipe = adopt_shape(recipe, shape_of(pretrained))
    check_shape(recipe, pretrained)
    return recipe, pretrained


def check_output(recipe: Recipe, resume: bool, overwrite: bool) -> str | None:
    """Return the checkpoint to go on from, or refuse an output folder that would destroy something.

    Raises:
        UsageError: see [`find_checkpoint`] and [`check_output_folder`]; or a run there is unfinished.
    """
    output = Path(recipe.output)
    if resume:
        return find_checkpoint(output, recipe)
    if recipe.model.word_vectors:
        count_word_vectors(Path(recipe.model.word_vectors), recipe.model.d_model)
    if not overwrite and is_unfinished(output):
        raise UsageError(f"{output} holds an unfinished run; add --resume to go on, or --overwrite to start again")
    check_output_folder(output, CONTENTS, overwrite)
    return None


def find_tokenizer(recipe: Recipe, pretrained: Pretrained | None, checkpoint: str | None) -> PreTrainedTokenizerFast:
    """Load the tokenizer, which may be that of the model to begin with.

    Raises:
        UsageError: see [`load_tokenizer`].
    """
    if recipe.data.tokenizer != recipe.model.from_:
        return load_tokenizer(Path(recipe.data.tokenizer))
    # Its checkpoints have it too.
    return pretrained.tokenizer if pretrained else load_tokenizer(Path(str(checkpoint)))


def initialize(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    pretrained: Pretrained | None,
) -> str:
    """Give a fresh model what it begins with besides random weights, and say what that is."""
    if pretrained is not None:
        taken = take_over(pretrained, model, tokenizer)
        what = f"{pretrained.name}, and"
        if recipe.task == "department":
            what = f"the encoder of {pretrained.name} ({len(model.encoder.state_dict())} tensors), and"
        return f"{what} its vectors for {taken:,} of {len(tokenizer):,} tokens"
    if recipe.model.word_vectors:
        found = initialize_embeddings(model, tokenizer, Path(recipe.model.word_vectors))
        return f"{recipe.model.word_vectors}, vectors for {found:,} of {len(tokenizer):,} tokens"
    return ""


def make_trainer(
    recipe: Recipe,
    arguments: Seq2SeqTrainingArguments,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    encoded: dict[str, Dataset],
    order: Order,
    splits: dict[str, Dataset],
) -> WenzhenTrainer:
    """Put together what a run consists of.

    Args:
        recipe: the run's.
        arguments: the recipe's, as transformers takes them.
        model: to be trained.
        tokenizer: the model's.
        encoded: the splits `train` and `validation` as tokens.
        order: of the pairs to train on.
        splits: the consultations themselves, those to train on in the order of their tokens.
    """
    multiple = recipe.training.pad_to_multiple_of if recipe.training.pad_to_multiple_of > 1 else None
    of_task: dict[str, Any] = {
        "data_collator": DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=multiple),
        "compute_metrics": exact_metrics,
        "preprocess_logits_for_metrics": answer_statistics,
    }
    if recipe.task == "department":
        of_task = {
            "data_collator": DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple),
            "compute_metrics": department_metrics,
            "preprocess_logits_for_metrics": department_statistics,
        }
    trainer = WenzhenTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded["train"],
        order=order,
        pair_ids=splits["train"]["id"],
        content=describe_content(recipe, encoded),
        eval_dataset=encoded["validation"],
        processing_class=tokenizer,
        **of_task,
        callbacks=make_callbacks(recipe, model, tokenizer, len(encoded["train"]), splits["validation"]),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def make_callbacks(
    recipe: Recipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    pairs: int,
    validation: Dataset,
) -> list[TrainerCallback]:
    """Return what happens beside the training, in the order in which it happens."""
    output, examples = Path(recipe.output), recipe.evaluation.examples
    log = TrainingLog(output)
    callbacks: list[TrainerCallback] = [log, TrainingClock(output)]
    if examples and recipe.task == "answer":
        # Beams would take many times as long.
        greedy = generation_config(
            replace(recipe.generation, num_beams=1), model.config, recipe.data.max_answer_length
        )
        asked = sample_split(validation, examples, recipe.seed)
        callbacks.append(ExampleAnswers(asked, recipe.data, tokenizer, greedy, log))
    # It adds the speed to what trackers get.
    callbacks += [Progress(pairs), *tracker(recipe.training.report_to, output)]
    if recipe.training.early_stopping_patience:
        callbacks.append(EarlyStoppingCallback(recipe.training.early_stopping_patience))
    return callbacks
