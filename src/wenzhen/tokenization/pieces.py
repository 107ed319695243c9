"""Words, and the pieces that are learned from them.

Chinese has no spaces. A word is a run of letters, marks and digits, at most `LONGEST_WORD` of them; every other
character stands alone. A piece lies within a word, so that none can become the name of a special token, all of which
hold punctuation.
"""

import sys
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

# What people write without punctuation can be a hundred characters long, and the time that a word takes grows with the
# square of its length. Hardly a piece is longer than this.
LONGEST_WORD = 32
LETTERS = r"\p{L}\p{M}\p{N}"


def split_words(letters: str = LETTERS) -> pre_tokenizers.PreTokenizer:
    """Return what cuts a text into words.

    Args:
        letters: what words are made of, as it stands in a regular expression's brackets.
    """
    return pre_tokenizers.Split(Regex(f"[{letters}]{{1,{LONGEST_WORD}}}|[^{letters}]"), "isolated")


def learn_pieces(texts: Iterable[str], size: int, min_frequency: int, alphabet: Iterable[str] = ()) -> list[str]:
    """Learn pieces by byte-pair encoding (Sennrich et al., 2016) over characters.

    Args:
        texts: to learn from.
        size: how many pieces to learn at most; all characters are kept, however many.
        min_frequency: no piece is made of a rarer pair.
        alphabet: characters to keep besides those of the texts.

    Returns:
        The characters by code point, then the longer pieces in the order in which they were made.
    """
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = split_words()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        initial_alphabet=list(alphabet),
        show_progress=sys.stderr.isatty(),
    )
    backend.train_from_iterator(texts, trainer)
    vocabulary = backend.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)
