"""A recipe trains with a tokenizer of any kind."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from wenzhen.corpus.loading import load_split
from wenzhen.recipe import Recipe
from wenzhen.tokenization import KINDS, save_tokenizer, train_tokenizer
from wenzhen.training.log import read_log
from wenzhen.training.run import train


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_trained_and_answers(
    kind: str, make_recipe: Callable[..., Recipe], dataset: Path, tmp_path: Path
) -> None:
    answers = list(load_split(dataset, "train")["answer"])
    tokenizer = train_tokenizer(answers, kind, vocab_size=1200)
    save_tokenizer(tokenizer, tmp_path / "tokenizer")
    output = train(
        make_recipe(
            f"output={tmp_path / 'model'}",
            f"data.tokenizer={tmp_path / 'tokenizer'}",
            "data.max_samples=16",
            "training.max_steps=2",
            "training.eval_steps=2",
            "training.logging_steps=1",
            "training.per_device_train_batch_size=4",
        )
    )
    losses = [entry["loss"] for entry in read_log(output) if "loss" in entry]
    # An untrained model knows nothing: about the logarithm of the vocabulary.
    assert losses == [pytest.approx(math.log(len(tokenizer)), rel=0.2)] * 2
    model, loaded = AutoModelForSeq2SeqLM.from_pretrained(output), AutoTokenizer.from_pretrained(output)
    assert model.config.vocab_size == len(loaded) == len(tokenizer)
    assert loaded.decode(loaded(answers[0])["input_ids"], skip_special_tokens=True) == answers[0]
    tokens = model.generate(**loaded("头痛怎么办？", return_tensors="pt"), max_new_tokens=5)
    assert isinstance(loaded.decode(tokens[0], skip_special_tokens=True), str)
