"""What the metrics count: characters, sacreBLEU's Chinese tokens, words."""

import re
from functools import lru_cache

from rouge_chinese import Rouge
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from wenzhen.words import jieba_tokenizer


def characters(text: str) -> str:
    """Return the characters of a text without blanks and line breaks."""
    return "".join(text.split())


def chinese_tokens(text: str) -> list[str]:
    """Cut a text as sacreBLEU's tokenization `zh` does: each Chinese character alone, the rest by words."""
    # The library sets Chinese characters apart first, which leaves it ten times as much to look through. Its rules for
    # words ask no more of a neighbour than whether it is a digit, so that the order makes no difference.
    tokens: str = _cut_words(text).translate(_CHINESE_APART)
    return tokens.split()


class _ChineseApart(dict[int, str]):
    """For `str.translate`: blanks around every character that sacreBLEU takes to be Chinese."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = f" {character} " if TokenizerZh._is_chinese_char(character) else character
        return self[code]


_CHINESE_APART = _ChineseApart()
_cut_words = TokenizerRegexp()


def words(text: str) -> list[str]:
    """Cut a text into jieba's words as rouge-chinese sees them, without blanks and line breaks."""
    # No word of jieba's goes across these marks, and the clauses between them come again and again.
    segmented = " ".join(map(_segment, re.split("([，。！？；])", text)))
    # The library cuts some words (dots in a row) where it takes a sentence to end.
    return " ".join(Rouge().cut_sent(segmented)).split()


@lru_cache(maxsize=2**17)
def _segment(clause: str) -> str:
    """Return a clause with a blank between its words."""
    return " ".join(jieba_tokenizer().cut(clause))
