"""The kinds of tokenizers side by side, trained on the same texts and measured on others."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from wenzhen.errors import UsageError
from wenzhen.tokenization.encoding import Encoder
from wenzhen.tokenization.kinds import KINDS, train_tokenizer
from wenzhen.tokenization.texts import BATCH, batches, check_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Name of a measurement -> head of its column and how it is written.
COLUMNS = {
    "vocabulary": ("tokens", "{:,}"),
    "training_seconds": ("trained, s", "{:.1f}"),
    "tokens_per_character": ("tokens/char", "{:.4f}"),
    "unknown_rate": ("unknown", "{:.4%}"),
    "characters_per_second": ("chars/s", "{:,.0f}"),
    "round_trip": ("round trip", "{:.2%}"),
}


def compare_kinds(
    texts: Iterable[str], validation: list[str], *, vocab_size: int | None = None, sample: Iterable[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Train a tokenizer of each kind and measure it.

    Args:
        texts: to train on.
        validation: to measure on.
        vocab_size: as [`train_tokenizer`] takes it.
        sample: as [`train_tokenizer`] takes it.

    Yields:
        `kind`, `training_seconds`, and what [`measure_tokenizer`] returns; of a kind that is impossible here, `kind`
        and `impossible`, the reason.

    Raises:
        UsageError: there is no text to learn from or to measure on.
    """
    check_texts(texts, "learn from")
    check_texts(validation, "measure on")
    for kind in KINDS:
        begin = time.perf_counter()
        try:
            tokenizer = train_tokenizer(texts, kind, vocab_size=vocab_size, sample=sample)
        except UsageError as error:
            yield {"kind": kind, "impossible": str(error)}
            continue
        seconds = time.perf_counter() - begin
        yield {"kind": kind, "training_seconds": seconds, **measure_tokenizer(tokenizer, validation)}


def measure_tokenizer(tokenizer: "PreTrainedTokenizerFast", texts: list[str]) -> dict[str, float]:
    """Measure a tokenizer on texts.

    Returns:
        `vocabulary`: tokens that it has; `tokens_per_character`, the end tokens not counted; `unknown_rate`: the share
        of characters that are read as the unknown token; `characters_per_second` of encoding; `round_trip`: the share
        of texts that come back from their tokens exactly.
    """
    encoder = Encoder(tokenizer)
    characters = sum(map(len, texts))
    tokens = unknown = restored = 0
    seconds = 0.0
    for batch in batches(texts, BATCH):
        begin = time.perf_counter()
        encoded = encoder(batch)
        seconds += time.perf_counter() - begin
        rows = [ids[:-1] for ids in encoded.to_pylist()]
        tokens += sum(map(len, rows))
        # Every kind reads each unknown character as one unknown token.
        unknown += sum(ids.count(tokenizer.unk_token_id) for ids in rows)
        decoded = encoder.backend.decode_batch(rows, skip_special_tokens=True)
        restored += sum(text == original for text, original in zip(decoded, batch, strict=True))
    return {
        "vocabulary": len(tokenizer),
        "tokens_per_character": tokens / characters,
        "unknown_rate": unknown / characters,
        "characters_per_second": characters / seconds,
        "round_trip": restored / len(texts),
    }


def comparison_table(rows: list[dict[str, Any]]) -> str:
    """Render what [`compare_kinds`] yields for a terminal."""
    lines = ["kind      " + "".join(f"{head:>14}" for head, _ in COLUMNS.values())]
    for row in rows:
        if "impossible" in row:
            lines.append(f"{row['kind']:<10}impossible: {row['impossible']}")
            continue
        cells = "".join(f"{form.format(row[name]):>14}" for name, (_, form) in COLUMNS.items())
        lines.append(f"{row['kind']:<10}{cells}")
    return "\n".join(lines)
