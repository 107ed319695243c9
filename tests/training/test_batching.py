"""From rows to token ids."""

from pathlib import Path

from datasets import Dataset

from wenzhen.corpus.loading import load_split
from wenzhen.recipe import Data
from wenzhen.tokenization import load_tokenizer
from wenzhen.training.batching import encode_split, sample_split


def test_encoded_rows_decode_to_question_text_and_answer(tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    rows = Dataset.from_dict(
        {"title": ["高血压吃什么药", "高血压"], "question": ["", "我最近查出高血压。"], "answer": ["您好。", "你好。"]}
    )
    data = Data(dataset="", tokenizer="", max_question_length=64, max_answer_length=64)
    encoded = encode_split(rows, tokenizer, data)
    assert encoded.column_names == ["input_ids", "labels", "length"]
    questions = tokenizer.batch_decode(list(encoded["input_ids"]), skip_special_tokens=True)
    assert questions == ["高血压吃什么药", "我最近查出高血压。"]
    assert tokenizer.batch_decode(list(encoded["labels"]), skip_special_tokens=True) == ["您好。", "你好。"]
    # Characters of both texts and one end each.
    assert list(encoded["length"]) == [7 + 3 + 2, 9 + 3 + 2]

    data.with_title = True
    titled = encode_split(rows, tokenizer, data)
    ids = tokenizer("高血压\n我最近查出高血压。")["input_ids"]
    assert titled["input_ids"][1] == ids


def test_sample_is_a_subset_without_replacement(dataset: Path) -> None:
    split = load_split(dataset, "train")
    sample = sample_split(split, 20, seed=3)
    assert len(set(sample["id"])) == 20
    assert set(sample["id"]) < set(split["id"])
    assert sample["id"] == sample_split(split, 20, seed=3)["id"]
    assert sample["id"] != sample_split(split, 20, seed=4)["id"]
    assert sample_split(split, -1, seed=3) is split
    assert sample_split(split, 10**6, seed=3) is split
