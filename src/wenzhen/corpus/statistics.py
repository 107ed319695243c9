"""What a dataset's texts are made of: lengths, characters, and how many of them training never shows."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from wenzhen.corpus.schema import TEXT_COLUMNS

PERCENTILES = (50, 95, 99)
COVERAGES = (0.99, 0.999, 0.9999)

CODE_POINTS = sys.maxunicode + 1

_BATCH = 10_000


@dataclass(frozen=True)
class TextStatistics:
    """Lengths of all texts by column, in characters, and counts of each code point `[0x110000]` by split."""

    lengths: dict[str, npt.NDArray[np.int64]]
    characters: dict[str, npt.NDArray[np.int64]]


def measure_texts(splits: Mapping[str, Dataset]) -> TextStatistics:
    """Go through the texts of all splits."""
    tables = {name: split.data.table for name, split in splits.items()}
    return TextStatistics(
        lengths={
            column: np.concatenate([pc.utf8_length(table[column]).to_numpy() for table in tables.values()])
            for column in TEXT_COLUMNS
        },
        characters={name: count_characters(table) for name, table in tables.items()},
    )


def code_points(texts: Iterable[str]) -> npt.NDArray[np.uint32]:
    """Return the code points of all texts, one after the other."""
    return np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)


def count_code_points(batches: Iterable[list[str]]) -> npt.NDArray[np.int64]:
    """Count each code point in texts that come in batches; `[0x110000]`."""
    counts = np.zeros(CODE_POINTS, dtype=np.int64)
    for batch in batches:
        counts += np.bincount(code_points(batch), minlength=CODE_POINTS)
    return counts


def count_characters(table: pa.Table) -> npt.NDArray[np.int64]:
    """Count each code point in the text columns of a table."""
    batches = table.select(TEXT_COLUMNS).to_batches(_BATCH)
    return count_code_points(column.to_pylist() for batch in batches for column in batch.columns)


def coverage(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the share of the running text that the k most frequent characters make up, at place k - 1."""
    frequencies = np.sort(counts[counts > 0])[::-1]
    return np.cumsum(frequencies) / frequencies.sum()


def summarize_texts(texts: TextStatistics) -> dict[str, Any]:
    """Put the statistics into a report's figures.

    Returns:
        `lengths`: mean, percentiles (by the nearest rank) and maximum of each column; `characters`: `total`,
        `different`, `coverage`: how many of the most frequent characters make up a share of the text, and
        `unknown_rate`: the share of the characters of validation and test that train does not hold.
    """
    counts = np.sum(list(texts.characters.values()), axis=0)
    unseen = texts.characters["train"] == 0
    return {
        "lengths": {column: summarize_lengths(lengths) for column, lengths in texts.lengths.items()},
        "characters": {
            "total": int(counts.sum()),
            "different": int((counts > 0).sum()),
            "coverage": {str(share): int(np.searchsorted(coverage(counts), share) + 1) for share in COVERAGES},
            "unknown_rate": {
                name: float(split[unseen].sum() / split.sum())
                for name, split in texts.characters.items()
                if name != "train"
            },
        },
    }


def summarize_lengths(lengths: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return mean, percentiles and maximum."""
    percentiles = np.percentile(lengths, PERCENTILES, method="inverted_cdf")
    return {
        "mean": round(float(lengths.mean()), 2),
        **{f"p{percent}": int(value) for percent, value in zip(PERCENTILES, percentiles, strict=True)},
        "max": int(lengths.max()),
    }
