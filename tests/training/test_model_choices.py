"""Every choice that a recipe's model may make learns the sample corpus."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wenzhen.errors import UsageError
from wenzhen.recipe import Recipe
from wenzhen.training.log import read_log
from wenzhen.training.run import train

CHOICES = (
    ["norm=pre"],
    ["positions=learned"],
    ["attention_score=dot"],
    ["attention_score=additive"],
    ["attention_score=bilinear"],
    ["activation_function=gelu"],
    ["activation_function=silu"],
    ["tie_word_embeddings=false"],
    ["norm=pre", "positions=learned", "attention_score=additive", "tie_word_embeddings=false"],
)


@pytest.mark.parametrize("choices", CHOICES, ids=", ".join)
def test_loss_falls(choices: list[str], make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = make_recipe(
        f"output={tmp_path / 'model'}",
        *(f"model.{choice}" for choice in choices),
        "training.max_steps=25",
        "training.eval_steps=25",
        "training.logging_steps=1",
        "training.per_device_train_batch_size=8",
        "training.learning_rate=1e-2",
        "evaluation.examples=0",
    )
    losses = [entry["loss"] for entry in read_log(train(recipe)) if "loss" in entry]
    assert sum(losses[-5:]) / 5 < losses[0] - 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("attention_heads=5", "`d_model` must be a multiple of `attention_heads`, got 32 and 5"),
        ("d_model=33", "multiple of `attention_heads`"),
    ],
)
def test_impossible_model_is_refused(
    make_recipe: Callable[..., Recipe], tmp_path: Path, setting: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        train(make_recipe(f"output={tmp_path / 'model'}", f"model.{setting}"))
