"""The rules for generated answers: doses are withheld or marked, clause by clause, while the text still grows."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wenzhen.answering.safety.patterns import NUMERALS

SENTENCE_ENDS = "。！？!?\n"
# What ends a clause for certain: what a comma or a point of ASCII means depends on what comes behind it.
CLAUSE_ENDS = "，；;" + SENTENCE_ENDS
# A dose, perhaps from one to another; not the number of a vitamin.
ANSWER_NUMBER = rf"(?<![a-z\d.])[\d{NUMERALS}][\d{NUMERALS}千万.,/~×*到至 –—-]{{0,20}}"
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
            shown.append(self.finish())
            start = end
        self._append(piece[start:])
        free = self._free()
        shown.append(self._clause[self._shown : free])
        self._shown = free
        return "".join(shown)

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
        read = character if character in CLAUSE_ENDS else unicodedata.normalize("NFKC", character).lower()
        self[code] = read if len(read) == 1 else character
        return self[code]


_TABLE = _AnswerTable()


def fold_answer(text: str) -> str:
    """Return an answer as the rules read it: lower case, no full-width forms; every character in its place."""
    return text.translate(_TABLE)
