"""From rows to token ids, and the cache of them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict
from transformers import PreTrainedTokenizerFast

from wenzhen.corpus.building import CONTENTS
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import question_text
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder
from wenzhen.recipe import Data
from wenzhen.tokenization import Encoder, load_tokenizer, train_tokenizer
from wenzhen.training import batching
from wenzhen.training.batching import encode_split, sample_split

COLUMNS = ["input_ids", "labels"]


def settings(**changed: Any) -> Data:
    """Return the data section of a recipe."""
    return Data(**{"dataset": "", "tokenizer": "", "max_question_length": 64, "max_answer_length": 64} | changed)


def expected_rows(split: Dataset, tokenizer: PreTrainedTokenizerFast, data: Data) -> list[dict[str, Any]]:
    """Encode a split without cache, row by row."""
    rows = []
    for row in split:
        question = question_text(row["title"], row["question"], data.with_title)
        inputs = tokenizer(question, truncation=True, max_length=data.max_question_length)["input_ids"]
        labels = tokenizer(row["answer"], truncation=False)["input_ids"][: data.max_answer_length]
        rows.append({"input_ids": inputs, "labels": labels})
    return rows


@pytest.fixture
def tokenizer(tokenizer_folder: Path) -> PreTrainedTokenizerFast:
    return load_tokenizer(tokenizer_folder)


@pytest.fixture
def folder(dataset: Path, tmp_path: Path) -> Path:
    """Return a dataset of a test's own, without any cache."""
    shutil.copytree(dataset, tmp_path / "dataset", ignore=shutil.ignore_patterns("cache-*"))
    return tmp_path / "dataset"


@pytest.fixture
def no_encoding(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let every attempt to tokenize fail."""

    def fail(*_: object) -> None:
        raise AssertionError("tokenized again")

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "pairs", fail)
        yield patch


def test_encoded_rows_decode_to_question_text_and_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_dict(
        {"title": ["高血压吃什么药", "高血压"], "question": ["", "我最近查出高血压。"], "answer": ["您好。", "你好。"]}
    )
    encoded = encode_split(rows, tokenizer, settings())
    assert encoded.column_names == COLUMNS
    questions = tokenizer.batch_decode(list(encoded["input_ids"]), skip_special_tokens=True)
    assert questions == ["高血压吃什么药", "我最近查出高血压。"]
    assert tokenizer.batch_decode(list(encoded["labels"]), skip_special_tokens=True) == ["您好。", "你好。"]
    # Characters of both texts and one end each.
    assert [len(ids) for ids in encoded["input_ids"]] == [7 + 1, 9 + 1]
    assert [len(ids) for ids in encoded["labels"]] == [3 + 1, 3 + 1]

    titled = encode_split(rows, tokenizer, settings(with_title=True))
    ids = tokenizer("高血压\n我最近查出高血压。")["input_ids"]
    assert titled["input_ids"][1] == ids


def test_second_start_reads_what_the_first_wrote(
    folder: Path, tokenizer: PreTrainedTokenizerFast, request: pytest.FixtureRequest
) -> None:
    split = load_split(folder, "train")
    first = encode_split(split, tokenizer, settings())
    assert first.to_list() == expected_rows(split, tokenizer, settings())
    (file,) = (folder / "train").glob("cache-*.arrow")
    # What earlier calls left in a tokenizer is not of its content.
    tokenizer("头痛", truncation=True, max_length=2, padding="max_length")

    request.getfixturevalue("no_encoding")
    second = encode_split(load_split(folder, "train"), tokenizer, settings())
    assert second.to_list() == first.to_list()
    assert second.column_names == COLUMNS
    # Memory-mapped, not read.
    assert [entry["filename"] for entry in second.cache_files] == [str(file)]


@pytest.mark.parametrize(
    "changed", [{"max_question_length": 20}, {"max_answer_length": 20}, {"with_title": True}], ids=str
)
def test_other_settings_never_meet_the_cache(
    folder: Path, tokenizer: PreTrainedTokenizerFast, changed: dict[str, Any]
) -> None:
    split = load_split(folder, "train")
    encode_split(split, tokenizer, settings())
    encoded = encode_split(split, tokenizer, settings(**changed))
    assert encoded.to_list() == expected_rows(split, tokenizer, settings(**changed))


def test_another_tokenizer_of_the_same_path_never_meets_the_cache(
    folder: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    split = load_split(folder, "train")
    encode_split(split, tokenizer, settings(tokenizer="here"))
    # The same characters with other ids.
    other = train_tokenizer(list(split["answer"])[:5])
    encoded = encode_split(split, other, settings(tokenizer="here"))
    assert encoded.to_list() == expected_rows(split, other, settings())


def test_a_part_of_a_split_never_meets_the_cache_of_the_whole(
    folder: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    split = load_split(folder, "train")
    encode_split(split, tokenizer, settings())
    part = split.select([5, 3, 8])
    assert encode_split(part, tokenizer, settings()).to_list() == expected_rows(part, tokenizer, settings())


@pytest.mark.parametrize("with_caches", [False, True])
def test_a_rebuilt_dataset_never_meets_the_cache(
    folder: Path, tokenizer: PreTrainedTokenizerFast, with_caches: bool
) -> None:
    """Even where the old cache stays and the library's fingerprint is the old one."""
    encode_split(load_split(folder, "train"), tokenizer, settings())
    old = folder.rename(folder.parent / "old")
    rows = load_split(old, "train").select(range(10))
    DatasetDict(train=rows, validation=rows, test=rows).save_to_disk(folder)
    shutil.copy(old / "train" / "state.json", folder / "train" / "state.json")
    if with_caches:
        for file in (old / "train").glob("cache-*"):
            shutil.copy2(file, folder / "train")
    split = load_split(folder, "train")
    assert split._fingerprint == load_split(old, "train")._fingerprint
    assert encode_split(split, tokenizer, settings()).to_list() == expected_rows(rows, tokenizer, settings())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_a_run_that_breaks_off_leaves_no_cache(
    folder: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    split = load_split(folder, "train")
    monkeypatch.setattr(batching, "BATCH", 20)
    encode = Encoder.pairs
    calls = []

    def break_off(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return encode(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "pairs", break_off)
        with pytest.raises(error):
            encode_split(split, tokenizer, settings())
    assert not list((folder / "train").glob("cache-*"))
    assert encode_split(split, tokenizer, settings()).to_list() == expected_rows(split, tokenizer, settings())


def test_where_no_file_can_be_written_the_tokens_stay_in_memory(
    folder: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Permissions do not bind the superuser.
    monkeypatch.setattr("datasets.arrow_dataset.tempfile.NamedTemporaryFile", refuse)
    names = sorted(path.name for path in (folder / "train").iterdir())
    split = load_split(folder, "train")
    encoded = encode_split(split, tokenizer, settings())
    assert encoded.to_list() == expected_rows(split, tokenizer, settings())
    assert sample_split(encoded, 5, seed=1).num_rows == 5
    assert sorted(path.name for path in (folder / "train").iterdir()) == names


@pytest.mark.parametrize("length", [0, 200, "half", "all batches but the last"])
def test_a_damaged_cache_is_made_anew(
    folder: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch, length: int | str
) -> None:
    monkeypatch.setattr(batching, "BATCH", 20)
    split = load_split(folder, "train")
    encode_split(split, tokenizer, settings())
    [cache] = (folder / "train").glob("cache-*")
    whole = cache.read_bytes()
    if length == "half":
        length = len(whole) // 2
    elif isinstance(length, str):
        with pa.ipc.open_stream(whole) as stream, cache.open("wb") as file:
            *kept, _ = stream
            with pa.ipc.new_stream(file, stream.schema) as writer:
                for batch in kept:
                    writer.write_batch(batch)
        assert cache.stat().st_size < len(whole)
    if isinstance(length, int):
        os.truncate(cache, length)
    assert encode_split(split, tokenizer, settings()).to_list() == expected_rows(split, tokenizer, settings())
    assert cache.read_bytes() == whole


def test_a_folder_in_the_place_of_the_cache_stays(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    split = load_split(folder, "train")
    encode_split(split, tokenizer, settings())
    [cache] = (folder / "train").glob("cache-*")
    cache.unlink()
    cache.mkdir()
    assert encode_split(split, tokenizer, settings()).to_list() == expected_rows(split, tokenizer, settings())
    assert not list(cache.iterdir())


def test_a_cache_hinders_neither_loading_nor_building_anew(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    before = load_split(folder, "train").to_list()
    for name in ("train", "validation"):
        encode_split(load_split(folder, name), tokenizer, settings())
        assert list((folder / name).glob("cache-*.arrow"))
    assert load_split(folder, "train").to_list() == before
    check_output_folder(folder, CONTENTS, overwrite=True)
    with pytest.raises(UsageError, match="already holds a result"):
        check_output_folder(folder, CONTENTS, overwrite=False)


def test_sample_is_a_subset_without_replacement(folder: Path) -> None:
    split = load_split(folder, "train")
    sample = sample_split(split, 20, seed=3)
    assert len(set(sample["id"])) == 20
    assert set(sample["id"]) < set(split["id"])
    assert sample["id"] == sample_split(split, 20, seed=3)["id"]
    assert sample["id"] != sample_split(split, 20, seed=4)["id"]
    assert sample_split(split, -1, seed=3) is split
    assert sample_split(split, 10**6, seed=3) is split
    assert not list((folder / "train").glob("cache-*"))
