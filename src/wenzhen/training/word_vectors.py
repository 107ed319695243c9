"""Pre-trained word vectors as initial embeddings, from files in word2vec's text format."""

import codecs
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from wenzhen.errors import UsageError
from wenzhen.tokenization.folder import token_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@torch.no_grad()
def initialize_embeddings(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", file: Path) -> int:
    """Put word vectors into the embeddings of encoder and decoder; tokens that the file lacks stay as they are.

    All vectors are multiplied by one number, which gives them the mean square 1/d of a fresh embedding: whatever their
    scale was, positions and layers meet what they expect.

    Args:
        model: untrained.
        tokenizer: its vocabulary is looked up by the texts of its tokens.
        file: word2vec's text format, see [`read_word_vectors`].

    Returns:
        How many tokens have got a vector.

    Raises:
        UsageError: the file cannot be read, has no vector for any token, or vectors of another size than the model's.
    """
    ids_by_text: dict[str, list[int]] = {}
    for token_id, text in token_texts(tokenizer):
        ids_by_text.setdefault(text, []).append(token_id)
    vectors = read_word_vectors(file, ids_by_text, model.config.d_model)
    if not vectors:
        raise UsageError(f"{file} has no vector for any of the {len(tokenizer):,} tokens; is it of another language?")
    table = np.stack(list(vectors.values()))
    # Their largest number first, so that no square is too large or too small for a float.
    largest = np.abs(table).max()
    if not largest:
        raise UsageError(f"the vectors of {file} that the tokenizer has tokens for are all zero")
    table /= largest
    table *= (np.square(table).mean() * model.config.d_model) ** -0.5
    ids = [ids_by_text[word] for word in vectors]
    rows = torch.from_numpy(np.repeat(table, [len(same) for same in ids], axis=0))
    flat = torch.tensor([token_id for same in ids for token_id in same])
    for side in (model.get_encoder(), model.get_decoder()):
        side.embed_tokens.weight[flat] = rows.to(side.embed_tokens.weight.dtype)
    return len(flat)


def read_word_vectors(file: Path, words: Collection[str], size: int) -> dict[str, np.ndarray]:
    """Read the vectors of some words: a line `NUMBER SIZE`, then a line `WORD x₁ … x_SIZE` for each, in UTF-8.

    Args:
        file: as word2vec and fastText write it; only the vectors asked for are held in memory.
        words: whose vectors are wanted; where the file has one twice, the first counts.
        size: how many numbers a vector must have.

    Returns:
        Vectors `[size]` in float64 of those words that the file has, in its order.

    Raises:
        UsageError: there is no such file, it has another format or size, or it was cut off.
    """
    number = count_word_vectors(file, size)
    vectors: dict[str, np.ndarray] = {}
    with (
        file.open("rb") as lines,
        tqdm(
            total=file.stat().st_size, unit="B", unit_scale=True, desc="word vectors", disable=None, leave=False
        ) as progress,
    ):
        next(lines)
        read = 0
        for read, line in enumerate(lines, 1):
            progress.update(len(line))
            word, _, _ = line.partition(b" ")
            text = word.decode("utf-8", errors="replace")
            if text in words and text not in vectors:
                vector = parse_vector(file, read + 1, line.split()[1:], size)
                if vector is not None:
                    vectors[text] = vector
    if read < number:
        raise UsageError(f"{file} was cut off: it holds {read:,} of the {number:,} vectors that its first line tells")
    return vectors


def count_word_vectors(file: Path, size: int) -> int:
    """Return the number of vectors that a file's first line tells, having compared their size.

    Raises:
        UsageError: there is no such file, its format is another, or its vectors have another size.
    """
    if not file.is_file():
        raise UsageError(f"no file of word vectors {file}")
    with file.open("rb") as lines:
        # No number of vectors has so many digits; another format may have no line break at all.
        fields = lines.readline(64).removeprefix(codecs.BOM_UTF8).split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        raise UsageError(
            f"{file} is not word2vec's text format: its first line must be the number of vectors and their size, as "
            f"`352217 {size}`"
        )
    number, found = (int(field) for field in fields)
    if found != size:
        raise UsageError(f"the vectors of {file} have {found} numbers, but model.d_model is {size}; make them equal")
    return number


def parse_vector(file: Path, line: int, numbers: list[bytes], size: int) -> np.ndarray | None:
    """Return a line's numbers; None where a word with a space inside only begins as the one that is wanted."""
    if len(numbers) > size:
        return None
    try:
        vector = np.array([float(number) for number in numbers])
    except ValueError:
        vector = np.array([])
    if len(vector) != size or not np.isfinite(vector).all():
        raise UsageError(f"line {line:,} of {file} does not hold a word and {size} numbers")
    return vector
