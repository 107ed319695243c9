"""New characters for a tokenizer that a model knows already: every old token keeps its id."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wenzhen.errors import UsageError
from wenzhen.tokenization.encoding import Encoder
from wenzhen.tokenization.folder import wrap_tokenizer
from wenzhen.tokenization.kinds import character_backend, characters_by_frequency, numbered
from wenzhen.tokenization.texts import check_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def extend_tokenizer(
    tokenizer: "PreTrainedTokenizerFast",
    texts: Iterable[str],
    *,
    vocab_size: int | None = None,
    min_frequency: int = 1,
) -> "PreTrainedTokenizerFast":
    """Put the characters of texts that a tokenizer lacks behind its own.

    Args:
        tokenizer: of the kind `character`. The others cut a text by all the tokens that they have: with new ones, they
            would cut old texts otherwise.
        texts: to find characters in.
        vocab_size: the most tokens to keep, the old ones included; None for all characters.
        min_frequency: leave rarer characters out.

    Returns:
        A tokenizer with the old tokens and ids, then the new characters from frequent to rare, then by code point.

    Raises:
        UsageError: the tokenizer is of another kind, or the vocabulary is smaller than it has already.
    """
    check_texts(texts, "learn from")
    if Encoder(tokenizer).table is None:
        raise UsageError(
            "only a character tokenizer can be extended; bpe, wordpiece and unigram would cut old texts otherwise: "
            "take the tokenizer as it is, or train a new one, of which a fine-tuned model keeps the tokens that it has"
        )
    vocabulary = tokenizer.get_vocab()
    old = sorted(vocabulary, key=vocabulary.__getitem__)
    if vocab_size is not None and vocab_size < len(old):
        raise UsageError(f"a vocabulary of {vocab_size:,} tokens is too small: the tokenizer has {len(old):,} already")
    new = [character for character in characters_by_frequency(texts, min_frequency) if character not in vocabulary]
    return wrap_tokenizer(character_backend(numbered([*old, *new][:vocab_size])))
