"""What a run says before its first step."""

from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict

from wenzhen.corpus.loading import load_split
from wenzhen.recipe import Recipe
from wenzhen.training.batching import COLUMNS
from wenzhen.training.run import train
from wenzhen.training.summary import unknown_row


def test_what_the_tokenizer_does_not_know_is_counted() -> None:
    rows = [{"input_ids": [4, 1, 3], "labels": [1, 3]}, {"input_ids": [5, 6, 3], "labels": [7, 8]}]
    pairs = Dataset.from_list(rows, features=COLUMNS["answer"])
    assert unknown_row(pairs, 1).startswith("2 of 10 tokens (20 %); ")
    assert unknown_row(pairs.select([1]), 1) == ""
    assert unknown_row(pairs.select([1, 0, 1, 1]), 1).startswith("2 of 20 tokens (10 %); ")


def test_a_run_of_less_than_an_epoch_on_texts_that_are_partly_unknown(
    make_recipe: Callable[..., Recipe], dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = load_split(dataset, "train").select(range(150))
    # Question and answer are Greek in the first one, which the tokenizer has not seen: 3 + 2 of all tokens.
    changed = rows.map(lambda row, index: {} if index else {"question": "ψωφ", "answer": "λξ"}, with_indices=True)
    DatasetDict(train=changed, validation=rows, test=rows).save_to_disk(tmp_path / "greek")
    settings = ("training.max_steps=1", "training.per_device_train_batch_size=2", "evaluation.examples=0")
    train(make_recipe(f"output={tmp_path / 'model'}", f"data.dataset={tmp_path / 'greek'}", *settings))
    shown = capsys.readouterr().out
    assert "\nunknown     5 of " in shown
    # 150 pairs make 75 steps: 1 / 75 = 0.0133.
    assert "\nsteps       1 of 2 pairs (0.013 epochs)\n" in shown
    assert "goes on" not in shown and "begins with" not in shown
