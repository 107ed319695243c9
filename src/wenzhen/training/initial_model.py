"""The model that a run begins with."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from wenzhen.errors import UsageError
from wenzhen.models.families import configuration_class, model_class
from wenzhen.recipe import Generation, Recipe, shape_settings


def build_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, departments: Sequence[str] = ()
) -> PreTrainedModel:
    """Make an untrained model of the recipe's shape and the tokenizer's vocabulary, and its way to answer.

    Args:
        recipe: the run's.
        tokenizer: the model's.
        departments: the names that a model of the task `department` tells apart, by their numbers.
    """
    longest = recipe.data.max_question_length
    labels: dict[str, Any] = {}
    if recipe.task == "answer":
        longest = max(longest, recipe.data.max_answer_length)
    else:
        labels = {"id2label": dict(enumerate(departments)), "label2id": {n: i for i, n in enumerate(departments)}}
    multiple = recipe.training.pad_to_multiple_of
    config = configuration_class(recipe.model.family)(
        **model_shape(recipe),
        **labels,
        vocab_size=len(tokenizer),
        # Padding stands at positions too.
        max_position_embeddings=math.ceil(longest / multiple) * multiple,
        pad_token_id=tokenizer.pad_token_id,
        unk_token_id=tokenizer.unk_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
    )
    model = model_class(recipe.model.family, recipe.task)(config)
    if recipe.task == "answer":
        model.generation_config = generation_config(recipe.generation, config, recipe.data.max_answer_length)
    return model


def model_shape(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe's model settings as the configuration takes them.

    Raises:
        UsageError: they fit no model.
    """
    shape = {name: getattr(recipe.model, name) for name in shape_settings(recipe.model.family, recipe.task)}
    try:
        configuration_class(recipe.model.family)(**shape)
    except StrictDataclassError as error:
        raise UsageError(f"the recipe's model is impossible: {error.__cause__ or error}") from error
    return shape


def generation_config(generation: Generation, config: Any, max_answer_length: int) -> GenerationConfig:
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
