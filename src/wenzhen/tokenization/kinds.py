"""The kinds of tokenizers and how each is trained.

character   every character is a token
bpe         byte-pair encoding over UTF-8 bytes: no text is unknown to it
wordpiece   the longest piece that fits, from left to right
unigram     the most probable pieces; a character that none covers is written in its bytes
"""

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from wenzhen.errors import UsageError
from wenzhen.tokenization.folder import SPECIAL_TOKENS, UNK, add_special_tokens, wrap_tokenizer
from wenzhen.tokenization.pieces import learn_pieces, split_words
from wenzhen.tokenization.texts import check_texts, count_characters
from wenzhen.tokenization.unigram import learn_unigram

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

KINDS = ("character", "bpe", "wordpiece", "unigram")
VOCAB_SIZE = 8000
# How the library writes bytes as tokens.
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def train_tokenizer(
    texts: Iterable[str],
    kind: str = "character",
    *,
    vocab_size: int | None = None,
    min_frequency: int = 1,
    sample: Iterable[str] | None = None,
) -> "PreTrainedTokenizerFast":
    """Train a tokenizer.

    Args:
        texts: titles, questions and answers of the training split; iterated more than once.
        kind: one of [`KINDS`].
        vocab_size: the most tokens to keep, the four special ones included; None stands for all characters, and for
            8,000 tokens of the other kinds.
        min_frequency: `character` and `wordpiece` leave rarer characters out and read them as the unknown token; `bpe`
            and `wordpiece` make no piece of rarer pairs; `unigram` has no use for it.
        sample: texts to learn the pieces from; None for all. The characters are counted in all texts.

    Returns:
        A tokenizer whose ids are pad 0, unk 1, bos 2, eos 3, then the kind's own; it ends every text with eos, and
        reads the special tokens' names inside a text as plain characters. The same texts give the same tokenizer.

    Raises:
        UsageError: the vocabulary is too small for the kind, or nothing is left to learn.
    """
    size = VOCAB_SIZE if vocab_size is None else vocab_size
    sample = texts if sample is None else sample
    check_texts(texts if kind == "character" else sample, "learn from")
    if kind == "character":
        backend = train_character(texts, vocab_size, min_frequency)
    elif kind == "bpe":
        backend = train_bpe(sample, size, min_frequency)
    elif kind == "wordpiece":
        backend = train_wordpiece(texts, size, min_frequency, sample)
    elif kind == "unigram":
        backend = train_unigram(sample, size)
    else:
        raise UsageError(f"no tokenizer kind {kind}; there are: {', '.join(KINDS)}")
    return wrap_tokenizer(backend)


def train_character(texts: Iterable[str], vocab_size: int | None, min_frequency: int) -> Tokenizer:
    """Give every character an id."""
    characters = characters_by_frequency(texts, min_frequency)
    if vocab_size is not None:
        characters = characters[: max(vocab_size - len(SPECIAL_TOKENS), 0)]
    if not characters:
        raise UsageError(
            f"no character of the texts occurs {min_frequency} times or more; lower the minimum frequency"
        )
    return character_backend(numbered([*SPECIAL_TOKENS, *characters]))


def characters_by_frequency(texts: Iterable[str], min_frequency: int) -> list[str]:
    """Return the characters that are not too rare, from frequent to rare, then by code point."""
    counts = count_characters(texts)
    return sorted((c for c in counts if counts[c] >= min_frequency), key=lambda c: (-counts[c], c))


def character_backend(vocabulary: dict[str, int]) -> Tokenizer:
    """Make a character tokenizer: a byte-pair encoder with an empty merge list cuts text into characters."""
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNK))
    backend.decoder = decoders.Fuse()
    return add_special_tokens(backend)


def train_bpe(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn merges of UTF-8 bytes; the ids are the 256 bytes', then the merges' as they were made."""
    check_vocab_size("bpe", vocab_size, len(SPECIAL_TOKENS) + len(BYTES), "the special tokens and 256 bytes")
    backend = Tokenizer(models.BPE())
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split_words(), in_bytes])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        # A pair that comes once is no pattern.
        min_frequency=max(min_frequency, 2),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=in_bytes.alphabet(),
        show_progress=sys.stderr.isatty(),
    )
    backend.train_from_iterator(texts, trainer)
    return add_special_tokens(backend)


def train_wordpiece(texts: Iterable[str], vocab_size: int, min_frequency: int, sample: Iterable[str]) -> Tokenizer:
    """Learn pieces; the ids are the characters' by code point, then the longer pieces' as they were made.

    Continuing pieces carry no `##`: where words have no beginning, it would double the characters for nothing.
    """
    counts = count_characters(texts)
    known = [character for character, count in counts.items() if count >= min_frequency]
    letters = "".join(character for character in known if unicodedata.category(character)[0] in "LMN")
    if not letters:
        raise UsageError(f"no letter of the texts occurs {min_frequency} times or more; lower the minimum frequency")
    smallest = len(SPECIAL_TOKENS) + len(known)
    what = f"the special tokens and {len(known):,} characters, of which a higher minimum frequency leaves fewer"
    check_vocab_size("wordpiece", vocab_size, smallest, what)
    rare = counts.keys() - set(known)
    # Longer pieces hold no rare character, the minimum frequency being the same.
    learned = learn_pieces(sample, vocab_size - len(SPECIAL_TOKENS) + len(rare), max(min_frequency, 2), counts)
    vocabulary = numbered([*SPECIAL_TOKENS, *(piece for piece in learned if piece not in rare)])
    backend = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token=UNK, continuing_subword_prefix=""))
    # A word with an unknown character is unknown as a whole, so that each unknown character must be a word of its own.
    backend.pre_tokenizer = split_words(letters)
    backend.decoder = decoders.Fuse()
    return add_special_tokens(backend)


def train_unigram(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn pieces with probabilities; the ids are the 256 bytes', then the pieces' from probable to improbable."""
    fixed = (*SPECIAL_TOKENS, *BYTES)
    check_vocab_size("unigram", vocab_size, len(fixed) + 1, "the special tokens, 256 bytes and a piece")
    pieces = learn_unigram(texts, vocab_size - len(fixed))
    vocabulary = [*((token, 0.0) for token in fixed), *pieces]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL_TOKENS.index(UNK), byte_fallback=True))
    backend.pre_tokenizer = split_words()
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return add_special_tokens(backend)


def check_vocab_size(kind: str, vocab_size: int, smallest: int, what: str) -> None:
    """Refuse a vocabulary that cannot hold what every tokenizer of the kind holds."""
    if vocab_size < smallest:
        raise UsageError(
            f"a vocabulary of {vocab_size:,} tokens is too small for {kind}: it needs at least {smallest:,} ({what})"
        )


def numbered(tokens: Sequence[str]) -> dict[str, int]:
    """Return each token's id, its place in the list."""
    return {token: index for index, token in enumerate(tokens)}
