"""Fine-tuning: a run that begins with the weights of a trained model, whatever its vocabulary is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from wenzhen.errors import UsageError
from wenzhen.models import MODEL_FILES
from wenzhen.models.families import family_of
from wenzhen.models.loading import check_files, load_model
from wenzhen.models.locating import find_model
from wenzhen.recipe import Recipe, check_network, shape_settings
from wenzhen.tokenization import load_tokenizer
from wenzhen.tokenization.folder import token_texts

# The parts of a model that have a row for each token, and those that may have one for each position.
VOCABULARY = ("shared", "embed_tokens", "lm_head")
POSITIONS = "positions"


@dataclass(frozen=True)
class Pretrained:
    """A trained model and its tokenizer, by the name that the recipe has for it."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast


def load_pretrained(name: str) -> Pretrained:
    """Load a model to begin with.

    Args:
        name: a model folder, or `OWNER/NAME` on the Hub.

    Raises:
        UsageError: there is none, it is damaged, or of none of our families.
    """
    folder = find_model(name, MODEL_FILES)
    check_files(folder, MODEL_FILES)
    model = load_model(folder, torch.float32)
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > model.config.vocab_size:
        raise UsageError(
            f"the tokenizer in {folder} has {len(tokenizer):,} tokens, its model {model.config.vocab_size:,}"
        )
    return Pretrained(name, model, tokenizer)


def adopt_shape(recipe: Recipe, shape: Mapping[str, Any]) -> Recipe:
    """Return the recipe with the family and shape of an earlier model, except for what the recipe's file or overrides
    give.

    Raises:
        UsageError: such a network cannot learn the recipe's task.
    """
    names = ("family", *shape_settings(shape["family"], recipe.task))
    taken = {name: shape[name] for name in names if f"model.{name}" not in recipe.given}
    recipe = replace(recipe, model=replace(recipe.model, **taken))
    check_network(recipe)
    return recipe


def shape_of(pretrained: Pretrained) -> dict[str, Any]:
    """Return a trained model's family and shape as a recipe has them."""
    config = pretrained.model.config
    family = family_of(config.model_type)
    return {"family": family, **{name: getattr(config, name) for name in shape_settings(family)}}


def check_shape(recipe: Recipe, pretrained: Pretrained) -> None:
    """Refuse a recipe that asks for another shape than that of the model it begins with; dropout has no weights.

    Raises:
        UsageError: it does.
    """
    shape = shape_of(pretrained)
    names = {"family", *shape_settings(shape["family"], recipe.task)} - {"dropout"}
    pairs = {name: (own, getattr(recipe.model, name)) for name, own in shape.items() if name in names}
    other = [f"model.{name} is {own} there, not {asked}" for name, (own, asked) in pairs.items() if own != asked]
    if other:
        raise UsageError(
            f"the run cannot begin with {pretrained.name}: {', '.join(other)}; leave keys of the shape out, and it is "
            "taken from there"
        )


@torch.no_grad()
def take_over(pretrained: Pretrained, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> int:
    """Put a trained model's weights into a fresh one of the same shape.

    Tokens that both tokenizers have keep their vectors, whatever their ids; those that only the new one has stay as
    they are. So do learned positions beyond the trained model's last, and a classifier's last layer.

    Args:
        pretrained: where the weights come from.
        model: the fresh model, or a fresh classifier, which gets the encoder.
        tokenizer: the fresh model's.

    Returns:
        How many tokens have kept their vectors.
    """
    theirs, ours = tokens_by_meaning(pretrained.tokenizer, tokenizer)
    shared = [(theirs[token], ours[token]) for token in ours if token in theirs]
    old, new = torch.tensor(shared).unbind(1)
    # A classifier has its encoder where a whole model has both sides.
    weights = {name.removeprefix("model."): weight for name, weight in pretrained.model.state_dict().items()}
    for name, weight in model.state_dict().items():
        name = name.removeprefix("model.")
        part = name.split(".")[-2]
        if name not in weights:
            continue
        if part in VOCABULARY:
            weight[new] = weights[name][old]
        elif part == POSITIONS:
            rows = min(len(weight), len(weights[name]))
            weight[:rows] = weights[name][:rows]
        else:
            weight.copy_(weights[name])
    return len(shared)


def tokens_by_meaning(*tokenizers: PreTrainedTokenizerFast) -> list[dict[str, int]]:
    """Return each tokenizer's ids by what stands for the same in all of them.

    That is the token itself where all tokenizers read tokens alike, and otherwise its text, which a part of a
    character has none of.
    """
    decoders = [json.loads(tokenizer.backend_tokenizer.to_str())["decoder"] for tokenizer in tokenizers]
    vocabularies: list[dict[str, int]] = [tokenizer.get_vocab() for tokenizer in tokenizers]
    if all(decoder == decoders[0] for decoder in decoders):
        return vocabularies
    texts: list[dict[str, int]] = []
    for tokenizer, vocabulary in zip(tokenizers, vocabularies, strict=True):
        ids = {token: vocabulary[token] for token in tokenizer.all_special_tokens}
        for index, text in token_texts(tokenizer):
            ids.setdefault(text, index)
        texts.append(ids)
    return texts
