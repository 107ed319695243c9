"""From consultations to batches."""

from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from wenzhen.corpus.schema import question_text
from wenzhen.recipe import Data
from wenzhen.tokenization import encode_pairs


def encode_split(split: Dataset, tokenizer: PreTrainedTokenizerFast, data: Data) -> Dataset:
    """Tokenize a split.

    Returns:
        Columns `input_ids`, `labels`, and `length`: the tokens of both, by which the Trainer groups.
    """

    def encode(rows: dict[str, list[str]]) -> dict[str, list[Any]]:
        questions = [
            question_text(title, question, data.with_title)
            for title, question in zip(rows["title"], rows["question"], strict=True)
        ]
        pairs = encode_pairs(tokenizer, questions, rows["answer"], data.max_question_length, data.max_answer_length)
        lengths = [len(i) + len(t) for i, t in zip(pairs["input_ids"], pairs["labels"], strict=True)]
        return {**pairs, "length": lengths}

    # Not cached: a cache file written beside the dataset would be shared by processes that write it at once.
    return split.map(encode, batched=True, remove_columns=split.column_names, keep_in_memory=True, desc="tokenizing")


def sample_split(split: Dataset, max_samples: int, seed: int) -> Dataset:
    """Take a random subset without replacement; -1 takes all."""
    if max_samples == -1 or max_samples >= len(split):
        return split
    return split.shuffle(seed=seed).select(range(max_samples))
