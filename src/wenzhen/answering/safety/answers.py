"""The rules for generated answers: doses are withheld or marked, clause by clause, while the text still grows."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wenzhen.answering.safety.folding import TRADITIONAL
from wenzhen.answering.safety.patterns import BARE, FRACTIONS, NUMBER, NUMERALS

SENTENCE_ENDS = "。！？!?\n"
# What ends a clause for certain: what a comma or a point of ASCII means depends on what comes behind it.
CLAUSE_ENDS = "，；;" + SENTENCE_ENDS
# A number does not begin in a word or a number; 维生素b12 is a name, but 维生素d400 and 维生素c2 hold one.
_BEGINS = r"(?:(?<![a-z\d.])|(?<=[a-z]{3})|(?<=[ace])|(?<=[a-z])(?=\d{3}|0\.|\d{1,2}\Z))"
ANSWER_NUMBERS = {
    # A dose, perhaps from one to another.
    NUMBER: rf"{_BEGINS}[\d{NUMERALS}{FRACTIONS}](?: {{0,2}}[\d{NUMERALS}{FRACTIONS}千万亿点.,/~×到至–—-]){{0,24}}",
    BARE: rf"{_BEGINS}(?:\d+\.\d+|\d+ ?万)(?! ?[\d.万%度年月日天周小分秒次元人倍左右以%<>=])",
}
# What may stand between two characters of a word or a number, and what may be the beginning of that.
JOINT = "(?: |<[^<>]{1,12}>){0,3}"
OPEN_JOINT = JOINT + "(?:<[^<>]{0,12})?"
# How far, in characters, a rule looks back beyond the clause.
REACH = 60

Action = Literal["show", "mark", "withhold"]


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """A rule for answers.

    Attributes:
        id: its name.
        action: `withhold` puts the text in the place of what is found, `mark` behind it; `show` leaves it as it is,
            whatever the rules below say of it.
        text: that is put there.
        found: what is looked for.
        beside: what must stand in the same sentence, not behind the clause; None where nothing must.
        unless: what excuses it, where the two overlap.
        within: characters between what is found and what must stand beside it at most.
    """

    id: str
    action: Action
    text: str
    found: re.Pattern[str]
    beside: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    within: int

    def matches(self, before: str, clause: str) -> Iterator[tuple[int, int]]:
        """Yield where the rule holds in a clause, whose sentence begins with `before`; both are folded."""
        context, offset = before + clause, len(before)
        for match in self.found.finditer(context, offset):
            start, end = match.span()
            near = context[max(0, start - self.within) : start] + "\n" + context[end : end + self.within]
            if self.beside and not self.beside.search(near):
                continue
            if self.unless and any(u.start() < end and start < u.end() for u in self.unless.finditer(context)):
                continue
            yield start - offset, end - offset


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule did to a generated answer.

    Attributes:
        rule: its name.
        text: what was marked; empty where it was withheld, so that it stands nowhere.
        action: `mark` or `withhold`.
    """

    rule: str
    text: str
    action: str


class AnswerChecker:
    """Checks one answer while it grows; how it is cut into pieces changes nothing.

    Args:
        rules: of those that hold of a piece of text the first counts.
        beginning: matches at the end of a text what may be the beginning of something that is marked or withheld.
    """

    def __init__(self, rules: Sequence[AnswerRule], beginning: re.Pattern[str]) -> None:
        self.rules, self.beginning = rules, beginning
        self.findings: list[Finding] = []
        self._sentence = ""  # what comes before the clause, as far as a rule looks back
        self._clause = ""
        self._read = ""  # the clause, folded
        self._shown = 0  # characters of the clause
        self._is_held = False  # whether the rest of the clause waits for its end

    def add(self, piece: str) -> str:
        """Take the next piece of the answer; return what may be shown by now."""
        shown = []
        start = 0
        for end in (index + 1 for index, character in enumerate(piece) if character in CLAUSE_ENDS):
            self._append(piece[start:end])
            start = end
            # A line may end within a dose.
            if piece[end - 1] != "\n" or not self._is_open():
                shown.append(self.finish())
        self._append(piece[start:])
        free = self._free()
        shown.append(self._clause[self._shown : free])
        self._shown = free
        return "".join(shown)

    def _is_open(self) -> bool:
        """Tell whether the clause, if it is a short one, ends in what may be the beginning of a dose."""
        return len(self._read) <= REACH and self.beginning.search(self._read) is not None

    def _append(self, text: str) -> None:
        """Add a text to the clause."""
        self._clause += text
        self._read += fold_answer(text)

    def finish(self) -> str:
        """End the clause; return what of it has not been shown, checked."""
        clause, start = self._clause, self._shown
        shown: list[str] = []
        for (found, end), rule in sorted(self._claims().items(), key=lambda claim: claim[0]):
            if rule.action == "show":
                continue
            is_marked = rule.action == "mark"
            self.findings.append(Finding(rule.id, clause[found:end] if is_marked else "", rule.action))
            shown += clause[start : end if is_marked else found], rule.text
            start = end
        shown.append(clause[start:])
        self._sentence = "" if clause[-1:] in SENTENCE_ENDS else (self._sentence + clause)[-REACH:]
        self._clause = self._read = ""
        self._shown, self._is_held = 0, False
        return "".join(shown)

    def _claims(self) -> dict[tuple[int, int], AnswerRule]:
        """Return which rule counts for which part of the clause."""
        claims: dict[tuple[int, int], AnswerRule] = {}
        before = fold_answer(self._sentence)
        for rule in self.rules:
            for start, end in rule.matches(before, self._read):
                if all(end <= other or last <= start for other, last in claims):
                    claims[start, end] = rule
        return claims

    def _free(self) -> int:
        """Return how many characters of the clause so far no rule can have anything to do with."""
        if self._is_held:
            return self._shown
        starts = [
            match.start()
            for rule in self.rules
            if rule.action != "show" and (match := rule.found.search(self._read, self._shown))
        ]
        self._is_held = bool(starts)
        if begun := self.beginning.search(self._read, self._shown):
            starts.append(begun.start())
        return min(starts, default=len(self._read))


class _AnswerTable(dict[int, str]):
    """What each character of an answer is read as: one for one, so that places stay the same."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = character if character in CLAUSE_ENDS and character != "\n" else _fold(character)
        return self[code]


def _fold(character: str) -> str:
    """Return what a character is read as: a digit, a letter in its simplest form, or a space."""
    read = unicodedata.normalize("NFKC", character).lower()
    if len(read) != 1:
        read = character
    if read.isspace() or read in _MARKUP or unicodedata.category(read) in ("Cf", "Cc", "Mn", "Me"):
        return " "
    if (digit := unicodedata.decimal(read, None)) is not None:
        return str(digit)
    return TRADITIONAL.get(read, _NUMERALS.get(read, read))


_TABLE = _AnswerTable()
_MARKUP = "`*_()[]{}\"'“”‘’「」『』【】〖〗|\\^#$\u3164\u115f\u1160\uffa0"
_NUMERALS = dict(
    zip("〇○壹贰貳叁參肆伍陆陸柒捌玖拾佰仟廿卅錠", "零零一二二三三四五六六七八九十百千二三片", strict=True)
)


def fold_answer(text: str) -> str:
    """Return an answer as the rules read it: lower case, no full-width forms; every character in its place."""
    return text.translate(_TABLE)
