"""What a run is about to do, for a terminal."""

import math
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc
from datasets import Dataset

from wenzhen.recipe import Recipe, shape_settings
from wenzhen.training.batching import token_lists
from wenzhen.training.trainer import WenzhenTrainer


def start_block(recipe: Recipe, trainer: WenzhenTrainer, beginning: tuple[str, str]) -> str:
    """Say what is about to be trained, on what, for how long.

    Args:
        recipe: the run's.
        trainer: ready to train.
        beginning: what it begins with or goes on from, as a row; left out where the second word is empty.
    """
    arguments = trainer.args
    passes = arguments.world_size * arguments.gradient_accumulation_steps
    size = f"{passes * arguments.train_batch_size:,} pairs"
    if recipe.training.max_tokens_per_batch > 0:
        size = f"up to {passes * recipe.training.max_tokens_per_batch:,} tokens"
    steps_per_epoch = len(trainer.order)
    steps = arguments.max_steps if arguments.max_steps > 0 else math.ceil(arguments.num_train_epochs * steps_per_epoch)
    epochs = steps / steps_per_epoch
    passed = f"{epochs:.1f}" if epochs >= 1 else f"{epochs:.2g}"
    rows: Sequence[tuple[str, str]] = (
        beginning,
        ("network", ", ".join(shape_words(recipe))),
        ("parameters", f"{trainer.model.num_parameters():,}"),
        ("vocabulary", f"{trainer.model.config.vocab_size:,} tokens"),
        ("departments", ", ".join(trainer.model.config.id2label.values()) if recipe.task == "department" else ""),
        ("pairs", f"{len(trainer.train_dataset):,} to train on, {len(trainer.eval_dataset):,} to validate"),
        ("unknown", unknown_row(trainer.train_dataset, trainer.processing_class.unk_token_id)),
        ("steps", f"{steps:,} of {size} ({passed} epochs)"),
        (
            "device",
            f"{arguments.device.type}, {arguments.world_size} process(es), {'bf16' if arguments.bf16 else 'fp32'}",
        ),
        ("output", recipe.output),
    )
    return "\n".join(f"{name:<12}{value}" for name, value in rows if value)


def shape_words(recipe: Recipe) -> Iterator[str]:
    """Yield a network's family and the settings of its shape."""
    yield recipe.model.family
    for name in shape_settings(recipe.model.family, recipe.task):
        yield f"{name} {getattr(recipe.model, name)}"


def unknown_row(encoded: Dataset, unk_token_id: int) -> str:
    """Say how much of the questions and answers the tokenizer does not know; nothing where it knows all."""
    unknown = total = 0
    for lists in token_lists(encoded):
        tokens = lists.flatten()
        unknown += pc.sum(pc.equal(tokens, unk_token_id)).as_py() or 0
        total += len(tokens)
    if not unknown:
        return ""
    share = f"{unknown:,} of {total:,} tokens ({100 * unknown / total:.2g} %)"
    return f"{share}; data_scripts/train_tokenizer.py --extend adds what is missing"
