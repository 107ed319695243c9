"""The command that trains and compares tokenizers."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from data_scripts.train_tokenizer import main
from datasets import Dataset, DatasetDict

from wenzhen.corpus.loading import load_split
from wenzhen.errors import UsageError, run
from wenzhen.tokenization import KINDS, load_tokenizer, save_tokenizer, train_tokenizer


def test_character_is_the_default_and_reads_every_record(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dataset", str(dataset), "--output", str(tmp_path / "tokenizer")]) == 0
    split = load_split(dataset, "train")
    expected = train_tokenizer([*split["answer"], *split["question"], *split["title"]])
    save_tokenizer(expected, tmp_path / "expected")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "tokenizer" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{len(expected):,} tokens from {len(split):,} records",
        f"tokenizer: {tmp_path / 'tokenizer'}",
    ]


def test_pieces_are_learned_from_a_sample_and_the_command_says_so(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    for name in ("once", "twice"):
        words = ["--dataset", dataset, "--output", tmp_path / name, "--kind", "wordpiece", "--sample-size", 40]
        assert main(list(map(str, words))) == 0
        written.append((tmp_path / name / "tokenizer.json").read_bytes())
    assert written[0] == written[1]
    total = len(load_split(dataset, "train"))
    assert f"pieces learned from 40 of {total:,} records" in capsys.readouterr().out
    tokenizer = load_tokenizer(tmp_path / "once")
    # Characters are known from all records, in the sample or not.
    assert all(1 not in tokenizer(answer)["input_ids"] for answer in load_split(dataset, "train")["answer"])


def test_comparison_for_a_program(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dataset", str(dataset), "--compare", "--vocab-size", "1500", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == list(KINDS)
    assert rows[0]["tokens_per_character"] == 1
    assert all(row["vocabulary"] <= 1500 for row in rows)
    assert [rows[1]["round_trip"], rows[3]["round_trip"]] == [1, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--output is missing"),
        (["--output", "x", "--vocab-size", "4"], "--vocab-size must be at least 5"),
        (["--output", "x", "--min-frequency", "0"], "--min-frequency must be at least 1, got 0"),
        (["--output", "x", "--kind", "bpe", "--sample-size", "0"], "--sample-size must be at least 1"),
        (["--output", "x", "--kind", "bpe", "--sample-size", "-2"], "at least 1, or -1 for all records, got -2"),
        (["--output", "x", "--kind", "unigram", "--min-frequency", "2"], "--min-frequency means nothing to unigram"),
        (["--output", "x", "--sample-size", "9"], "--sample-size means nothing to character"),
        (["--output", "x", "--json"], "--json goes with --compare"),
        (["--compare", "--output", "x"], "--output means nothing to --compare"),
        (["--compare", "--kind", "bpe"], "--kind means nothing to --compare"),
        (["--compare", "--overwrite"], "--overwrite means nothing to --compare"),
        (["--compare", "--extend", "x"], "--extend means nothing to --compare"),
        (["--output", "x", "--extend", "y", "--kind", "bpe"], "--kind means nothing to --extend"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        main(["--dataset", "nowhere", *words])


def test_impossible_vocabulary_leaves_nothing_behind(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dataset", str(dataset), "--output", str(tmp_path / "t"), "--kind", "wordpiece", "--vocab-size", "99"]
    assert run(main, words) == 2
    assert "99 tokens is too small for wordpiece" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def saved_dataset(folder: Path, answers: list[Any], validation: list[Any] | None = None) -> str:
    """Save a dataset whose only texts are its answers."""
    splits = {"train": answers, "validation": answers if validation is None else validation, "test": answers}
    names = ("id", "department", "sub_department", "title", "question")
    rows = {split: {name: [""] * len(texts) for name in names} for split, texts in splits.items()}
    DatasetDict(
        {split: Dataset.from_dict(rows[split] | {"answer": texts}) for split, texts in splits.items()}
    ).save_to_disk(folder)
    return str(folder)


@pytest.mark.parametrize("words", [*(["--output", "x", "--kind", kind] for kind in KINDS), ["--compare"]])
@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "the train split of .*dataset holds no record"),
        ([""], "there is no text to learn from"),
        ([7], "the train split of .*dataset holds other than texts in the columns answer"),
        (["头痛", None], "the train split of .*dataset holds other than texts in the columns answer"),
    ],
)
def test_a_dataset_without_texts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], answers: list[Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = saved_dataset(tmp_path / "dataset", answers)
    with pytest.raises(UsageError, match=message):
        main(["--dataset", dataset, *words])
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_a_comparison_without_texts_to_measure_on_is_refused(tmp_path: Path) -> None:
    dataset = saved_dataset(tmp_path, ["头痛"], validation=[""])
    with pytest.raises(UsageError, match="no text to measure on"):
        main(["--dataset", dataset, "--compare"])


def test_an_impossible_kind_gets_its_reason_and_the_others_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = saved_dataset(tmp_path, ["🤒🤧"] * 3)
    assert main(["--dataset", dataset, "--compare", "--json"]) == 0
    rows = {row.pop("kind"): row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(KINDS)
    assert list(rows["wordpiece"]) == ["impossible"]
    assert [rows[kind]["round_trip"] for kind in ("character", "bpe", "unigram")] == [1, 1, 1]
    assert main(["--dataset", dataset, "--compare"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("wordpiece impossible: no letter of the texts")
    assert lines[4].split()[0] == "unigram" and lines[4].endswith("100.00%")


@pytest.mark.parametrize("damage", ["cut", "empty", "state", "no state"])
def test_a_damaged_dataset_is_named(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    folder = tmp_path / "dataset"
    shutil.copytree(dataset, folder, ignore=shutil.ignore_patterns("cache-*"))
    [arrow], state = (folder / "train").glob("data-*.arrow"), folder / "train" / "state.json"
    if damage in ("cut", "empty"):
        os.truncate(arrow, 1000 if damage == "cut" else 0)
    elif damage == "state":
        state.write_text("{", encoding="utf-8")
    else:
        state.unlink()
    assert run(main, ["--dataset", str(folder), "--output", str(tmp_path / "t")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: the train split of {folder} cannot be read: ")


def test_a_tokenizer_is_extended_behind_its_own_tokens(
    tokenizer_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = load_tokenizer(tokenizer_folder)
    dataset = saved_dataset(tmp_path / "dataset", ["龘龘𠮷头痛", "𠮷𠮷😀"])
    words = ["--dataset", dataset, "--output", str(tmp_path / "new"), "--extend", str(tokenizer_folder)]
    assert main(words) == 0
    new = load_tokenizer(tmp_path / "new")
    vocabulary = new.get_vocab()
    assert {token: vocabulary[token] for token in old.get_vocab()} == old.get_vocab()
    # From frequent to rare.
    assert [vocabulary[character] for character in "𠮷龘😀"] == [len(old), len(old) + 1, len(old) + 2]
    assert len(new) == len(old) + 3
    assert new("头痛😀")["input_ids"] == [*old("头痛")["input_ids"][:-1], len(old) + 2, 3]
    assert new.decode(new("𠮷头痛")["input_ids"], skip_special_tokens=True) == "𠮷头痛"
    assert f"{len(old):,} of them those of {tokenizer_folder}, with their ids; 3 are new\n" in capsys.readouterr().out
    assert main([*words, "--overwrite", "--min-frequency", "2", "--vocab-size", str(len(old) + 1)]) == 0
    assert set(load_tokenizer(tmp_path / "new").get_vocab()) - set(old.get_vocab()) == {"𠮷"}
    # In its own place too.
    assert main(["--dataset", dataset, "--output", str(tmp_path / "new"), "--extend", words[3], "--overwrite"]) == 0
    assert load_tokenizer(tmp_path / "new").get_vocab() == vocabulary


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "character"])
def test_other_kinds_cannot_be_extended(dataset: Path, tmp_path: Path, kind: str) -> None:
    save_tokenizer(train_tokenizer(["头痛怎么办，咳嗽怎么办"] * 3, kind, vocab_size=400), tmp_path / "old")
    words = ["--dataset", str(dataset), "--output", str(tmp_path / "new"), "--extend", str(tmp_path / "old")]
    with pytest.raises(UsageError, match="only a character tokenizer can be extended; bpe, wordpiece and unigram"):
        main(words)
    assert not (tmp_path / "new").exists()
