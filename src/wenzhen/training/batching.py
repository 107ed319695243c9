"""From consultations to batches."""

import hashlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import tokenizers
from datasets import Dataset, Features, List, Value
from datasets.fingerprint import Hasher

from wenzhen.corpus import schema, statistics
from wenzhen.corpus.schema import question_text
from wenzhen.recipe import Data
from wenzhen.tokenization import Encoder, encoding, texts
from wenzhen.tokenization.texts import BATCH

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

QUESTIONS = {"input_ids": List(Value("int32"))}
# What a pair becomes, by the task: the answer's tokens, or the department's number.
COLUMNS = {
    "answer": Features({**QUESTIONS, "labels": List(Value("int32"))}),
    "department": Features({**QUESTIONS, "labels": Value("int64")}),
}


def encode_split(split: Dataset, tokenizer: "PreTrainedTokenizerFast", data: Data, task: str = "answer") -> Dataset:
    """Tokenize a split, or take it from the cache beside the split's own files: `cache-*.arrow`, free to be deleted.

    The cache file gets its name when it is whole; one that was damaged since is made anew. Where it cannot be written,
    the tokens are kept in memory.

    Returns:
        Columns `input_ids` and `labels`; see [`COLUMNS`].
    """
    encoder = Encoder(tokenizer)
    key = fingerprint(split, encoder, data, task)

    def encode(titles: list[str], questions: list[str], targets: list[Any]) -> pa.Table:
        asked = [
            question_text(title, question, data.with_title) for title, question in zip(titles, questions, strict=True)
        ]
        if task == "department":
            inputs, labels = encoder(asked, data.max_question_length), pa.array(targets, pa.int64())
        else:
            inputs, labels = encoder.pairs(asked, targets, data.max_question_length, data.max_answer_length)
        return pa.table({"input_ids": inputs, "labels": labels})

    def tokenized(keep_in_memory: bool = False) -> Dataset:
        return split.map(
            encode,
            batched=True,
            batch_size=BATCH,
            # The task has the name of the column that it learns to tell.
            input_columns=["title", "question", task],
            features=COLUMNS[task],
            keep_in_memory=keep_in_memory,
            load_from_cache_file=not keep_in_memory,
            new_fingerprint=key,
            desc="tokenizing",
        )

    try:
        try:
            encoded = tokenized()
            # A file that ends between two of its batches reads well.
            if len(encoded) == len(split):
                return encoded
        except (OSError, pa.ArrowException):
            pass
        Path(split._get_cache_file_path(key)).unlink()
        return tokenized()
    except OSError:
        # A folder that is read-only or in the file's place, or a full disk.
        return tokenized(keep_in_memory=True)


def fingerprint(split: Dataset, encoder: Encoder, data: Data, task: str) -> str:
    """Hash all that the tokens of a split depend on."""
    # Content that was replaced behind the dataset's own fingerprint has another time.
    times = [os.stat(file["filename"]).st_mtime_ns for file in split.cache_files]
    code = [inspect.getsource(module) for module in (schema, statistics, texts, encoding, sys.modules[__name__])]
    settings = (task, data.max_question_length, data.max_answer_length, data.with_title)
    backend = (encoder.backend.to_str(), encoder.backend.encode_special_tokens, tokenizers.__version__)
    return Hasher.hash([split._fingerprint, times, code, settings, backend])


def hash_tokens(encoded: Dataset) -> str:
    """Hash the tokens of a split's pairs, their departments and their order, wherever they lie."""
    digest = hashlib.sha256()
    for column in encoded_columns(encoded):
        if pa.types.is_list(column.type):
            digest.update(column.value_lengths().to_numpy().tobytes())
            column = column.flatten()
        digest.update(column.to_numpy().tobytes())
    return digest.hexdigest()


def token_lists(encoded: Dataset) -> Iterator[pa.ListArray]:
    """Yield the questions of a split, and the answers where it has them, as lists of tokens, many at a time."""
    return (column for column in encoded_columns(encoded) if pa.types.is_list(column.type))


def encoded_columns(encoded: Dataset) -> Iterator[pa.Array]:
    """Yield the columns of an encoded split, many rows at a time."""
    for table in encoded.with_format("arrow").iter(batch_size=BATCH):
        for column in table.columns:
            yield from column.chunks


def sample_split(split: Dataset, max_samples: int, seed: int) -> Dataset:
    """Take a random subset without replacement; -1 takes all."""
    if max_samples == -1 or max_samples >= len(split):
        return split
    # In memory: the library would write the order beside the dataset.
    return split.shuffle(seed=seed, keep_in_memory=True).select(range(max_samples))
