"""Words of Chinese texts, by jieba's dictionary."""

import warnings
from functools import cache
from typing import Any


@cache
def jieba_tokenizer() -> Any:
    """Load jieba with its own dictionary."""
    with warnings.catch_warnings():
        # For some versions of Python and setuptools the import alone warns of the package's age.
        warnings.simplefilter("ignore")
        import jieba

        tokenizer = jieba.Tokenizer()
        # `initialize` would log to standard error and keep a file in the shared folder for temporary files: no faster.
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
        tokenizer.initialized = True
    return tokenizer


def search_words(text: str) -> list[str]:
    """Cut a text into the words to look it up by, in lower case, without punctuation.

    A long word comes with the shorter ones in it (高血压 with 血压), so that either finds the other. What the
    dictionary does not know is cut into single characters, not guessed at: its characters are found anywhere.
    """
    words: list[str] = jieba_tokenizer().lcut_for_search(text.lower(), HMM=False)
    return [word for word in words if word[0].isalnum()]
