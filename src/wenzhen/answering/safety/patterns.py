"""The little language of rules.yaml, and the regular expressions that it becomes.

    胸痛            these characters
    <胸>            any of the words listed under this name
    <数>            a number, in digits or in Chinese
    <裸数>          one that looks like a dose without its unit, as in 0.5 or 80万 (in rules for answers alone)
    <数40-89>       one whose whole part is from 40 to 89, and not the second of two, as in 120/80
    ..  ...         up to 4, up to 12 characters of the same clause
    胸痛 + 冷汗     both, not far from each other, in either order (in a rule's patterns alone)
    <此>            the words that a pattern has found (in `unless` and under `context` alone)

What may repeat is bounded, so that a text takes a time linear in its length, whatever stands in it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from wenzhen.errors import UsageError

NUMBER, BARE, FOUND = "<数>", "<裸数>", "<此>"
# Stands for the words found in a text where cues around them are looked for.
FOUND_MARK = "\ufffc"
GAPS = {"..": 4, "...": 12}
FRACTIONS = "½¼¾⅓⅔⅛"
NUMERALS = "零一二两三四五六七八九十百半几"
# Lists within each other, and words in a list with all that it holds, at most.
DEEPEST, LONGEST = 10, 5_000
# Characters of an expression, and of all regular expressions that are made, at most.
LONGEST_EXPRESSION, MOST_WRITTEN = 100, 20_000_000
_DIGITS = "零一二三四五六七八九"
_RANGE = re.compile(r"<数(\d+)-(\d+)>")
_TOKEN = re.compile(r"<[^<>]*>|\.{2,}|(?:[^<>.]|(?<!\.)\.(?!\.))+|[<>]")


class Vocabulary:
    """The lists of words of a rule file, and what expressions over them become.

    Args:
        words: expressions by the name of their list.
        fold: brings an expression's characters into the form of the texts that it is looked for in.
        numbers: regular expressions of numbers, by their tokens; that of [`NUMBER`] matches what begins any.
        ends: characters that no gap goes beyond.
        joint: regular expression of what may stand between any two characters.

    Raises:
        UsageError: an expression is none of the language, names no list, or a list holds itself.
    """

    def __init__(
        self,
        words: Mapping[str, Sequence[str]],
        fold: Callable[[str], str],
        numbers: Mapping[str, str],
        ends: str,
        joint: str = "",
    ) -> None:
        self.words, self.fold, self.numbers, self.joint = words, fold, numbers, joint
        self.inside = f"[^{re.escape(ends)}]"
        self._bits: dict[str, int] = {}
        self._beginning: dict[str, int] = {}
        self._regexes: dict[str, str] = {}
        self._written = 0
        self._sizes: dict[str, tuple[int, int]] = {}
        for name in words:
            self._size(name, ())

    def regex(self, expression: str) -> str:
        """Return the regular expression; each gap is a group."""
        written = self.joint.join(map(self._element, self.tokens(expression)))
        self._written += len(written)
        if self._written > MOST_WRITTEN:
            raise UsageError("the rules are too many with all lists in them written out; name shorter lists in them")
        return written

    def search_for(self, *expressions: str) -> re.Pattern[str]:
        """Compile the regular expression of any of several, which passes quickly over where none can begin."""
        first = {beginning[0] for one in expressions for beginning in self._beginnings(self.tokens(one)[0])}
        return re.compile(f"(?=[{re.escape(''.join(sorted(first)))}]){self.any_of(expressions)}")

    def prefix(self, expression: str) -> str:
        """Return the regular expression of all that an expression's matches may begin with, one character at least."""
        tokens = self.tokens(expression)
        whole = [self._element(token) for token in tokens]
        return _any(self.joint.join([*whole[:n], self._element_prefix(token)]) for n, token in enumerate(tokens))

    def any_of(self, expressions: Iterable[str]) -> str:
        """Return the regular expression of any of several expressions, plain and long ones before the others.

        The words around what is found are read too: nothing of it may be left over.
        """
        return _any(map(self.regex, sorted(expressions, key=lambda one: ("." in one or "<" in one, -len(one)))))

    def needs(self, expression: str) -> int:
        """Return which elements a text must hold for the expression to match, as bits; see [`absent`]."""
        mask = 0
        for token in self.tokens(expression):
            if token not in GAPS:
                mask |= self._bit(token)
        return mask

    def absent(self, text: str) -> int:
        """Return, as bits, the elements that begin with no character, nor two in a row, of a text."""
        mask = 0
        for beginning in {*text, *map("".join, pairwise(text))}:
            mask |= self._beginning.get(beginning, 0)
        return mask ^ ((1 << len(self._bits)) - 1)

    def tokens(self, expression: str) -> list[str]:
        """Split an expression into words, names in <>, and gaps."""
        if not isinstance(expression, str) or not expression:
            raise UsageError(f"a pattern must be a text, got {expression!r}; write digits and yes/no in quotes")
        if len(expression) > LONGEST_EXPRESSION:
            raise UsageError(f"{expression[:20]!r}… is longer than {LONGEST_EXPRESSION} characters")
        tokens = _TOKEN.findall(expression)
        for token in tokens:
            if token in "<>" or (token[:2] == ".." and token not in GAPS):
                raise UsageError(f"{expression!r} holds {token!r}; gaps are .. and ..., names stand in < >")
            if _RANGE.fullmatch(token):
                _numbers(token)
            elif token[0] == "<" and not self._is_built_in(token) and token[1:-1] not in self.words:
                raise UsageError(f"{expression!r} names {token}, which is no list under `words`")
        if tokens[0] in GAPS or tokens[-1] in GAPS:
            raise UsageError(f"{expression!r} begins or ends with a gap; it must begin and end with a word")
        return tokens

    def _element(self, token: str) -> str:
        """Return the regular expression of a word, a named list or a gap."""
        if token in GAPS:
            return f"({self.inside}{{0,{GAPS[token]}}}?)"
        if token in self.numbers:
            return self.numbers[token]
        if token == FOUND:
            return FOUND_MARK
        if _RANGE.fullmatch(token):
            return _number_in(token)
        if token[0] == "<":
            if token not in self._regexes:
                self._regexes[token] = self.any_of(self.words[token[1:-1]])
            return self._regexes[token]
        return _bounded(self._word(token), self.joint)

    def _element_prefix(self, token: str) -> str:
        """Return the regular expression of what a word, a named list or a gap may begin with."""
        if token in self.numbers:
            return self.numbers[NUMBER]
        if token in GAPS or self._is_built_in(token):
            return self._element(token)
        if token[0] == "<":
            return _any(map(self.prefix, self.words[token[1:-1]]))
        word = self._word(token)
        nested = ""
        for character in reversed(word[1:]):
            nested = f"(?:{self.joint}{re.escape(character)}{nested})?"
        return re.escape(word[0]) + nested

    def _bit(self, token: str) -> int:
        """Return an element's bit, which stands for each of the element's beginnings."""
        if token not in self._bits:
            bit = self._bits[token] = 1 << len(self._bits)
            for beginning in self._beginnings(token):
                self._beginning[beginning] = self._beginning.get(beginning, 0) | bit
        return self._bits[token]

    def _beginnings(self, token: str) -> set[str]:
        """Return the two characters that an element may begin with, or the one that is all."""
        if token in self.numbers:
            return {*"0123456789", *NUMERALS, *FRACTIONS}
        if token == FOUND:
            return {FOUND_MARK}
        if _RANGE.fullmatch(token):
            return {number[:2] for number in _numbers(token)}
        if token[0] == "<":
            return set().union(*(self._beginnings(self.tokens(item)[0]) for item in self.words[token[1:-1]]))
        return {self._word(token)[:2]}

    def _word(self, token: str) -> str:
        """Return a word as it stands in folded texts."""
        if not (word := self.fold(token)):
            raise UsageError(f"the pattern {token!r} holds nothing that can be looked for; write letters or digits")
        return word

    def _size(self, name: str, within: tuple[str, ...]) -> tuple[int, int]:
        """Return how many words a list holds with those of the lists in it, and how deep; refuse endless ones."""
        if name not in self._sizes:
            if name in within:
                raise UsageError(f"the list {name} under `words` holds itself")
            named = [self._named(token) for item in self.words[name] for token in self.tokens(item)]
            inner = [self._size(one, (*within, name)) if one else (1, 0) for one in named]
            size, depth = sum(size for size, _ in inner), 1 + max(depth for _, depth in inner)
            if size > LONGEST or max(depth, len(within)) > DEEPEST:
                raise UsageError(
                    f"the list {name} under `words` is too long with all lists in it; "
                    f"{LONGEST:,} words, {DEEPEST} lists within each other at most"
                )
            self._sizes[name] = size, depth
        return self._sizes[name]

    def _named(self, token: str) -> str | None:
        """Return the list that a token names, if it does."""
        return token[1:-1] if token[0] == "<" and not self._is_built_in(token) else None

    def _is_built_in(self, token: str) -> bool:
        """Tell whether a token is a number, or the words found."""
        return token in self.numbers or token == FOUND or _RANGE.fullmatch(token) is not None


def _any(alternatives: Iterable[str]) -> str:
    """Return the regular expression of any of several."""
    return f"(?:{'|'.join(alternatives)})"


def _numbers(token: str) -> list[str]:
    """Return the whole numbers of a range, in digits and in Chinese, the longest first."""
    found = _RANGE.fullmatch(token)
    first, last = (int(end) for end in found.groups()) if found else (0, -1)
    if not first <= last < 1000:
        raise UsageError(f"{token} is no range; write the smaller number first, and none above 999")
    numbers = [spelling for number in range(first, last + 1) for spelling in (str(number), *_in_chinese(number))]
    return sorted(numbers, key=len, reverse=True)


def _in_chinese(number: int) -> set[str]:
    """Return how a number from 10 to 999 is said: 八十五, 一百五十 or 一百五, 两百; the digits stand in many words."""
    hundreds, tens, units = number // 100, number // 10 % 10, number % 10
    if not hundreds:
        return {(_DIGITS[tens] if tens > 1 else "") + "十" + (_DIGITS[units] if units else "")} if tens else set()
    ten = f"{_DIGITS[tens]}十" if tens else "零" if units else ""
    said = {ten + (_DIGITS[units] if units else "")} | ({_DIGITS[tens]} if tens and not units else set())
    return {f"{digit}百{rest}" for digit in _DIGITS[hundreds] + ("两" if hundreds == 2 else "") for rest in said}


def _number_in(token: str) -> str:
    """Return the regular expression of a number in a range."""
    numbers = "|".join(_numbers(token))
    return rf"(?<![\d.{NUMERALS}])(?<!\d )(?:{numbers})(?:\.\d+)?(?![\d{NUMERALS}])"


def _bounded(word: str, joint: str) -> str:
    """Return the regular expression of a word: Latin letters and numbers stand whole, and not in longer ones."""
    before = after = ""
    if re.match("[a-z]", word):
        before = "(?<![a-z])"
    elif word[0].isdigit() or word[0] in NUMERALS:
        before = rf"(?<![\d.{NUMERALS}])"
    if re.match("[a-z]", word[-1]):
        after = "(?![a-z])"
    elif word[-1].isdigit():
        after = r"(?!\d)"
    return before + joint.join(map(re.escape, word)) + after
