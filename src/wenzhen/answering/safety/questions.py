"""The rules for questions: signs of an emergency, and what excuses them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wenzhen.answering.safety.context import REACH, Context
from wenzhen.answering.safety.folding import SENTENCE, Folded
from wenzhen.answering.safety.patterns import FOUND_MARK, Vocabulary

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Signs that make an emergency when they stand together.

    Attributes:
        parts: an expression for each sign.
        needs: see [`Vocabulary.needs`].
    """

    parts: tuple[str, ...]
    needs: int


@dataclass(frozen=True, slots=True)
class QuestionRule:
    """A rule for questions.

    Attributes:
        id: its name.
        category: the kind of emergency.
        notice: the name of what is answered.
        patterns: any of which is enough.
        unless: what excuses a sign in whose sentence it stands; around the sign where it holds its mark.
        despite: readings of [`Context`] in spite of which a sign counts.
        within: characters between the first and the last sign of a pattern at most.
    """

    id: str
    category: str
    notice: str
    patterns: tuple[Pattern, ...]
    unless: re.Pattern[str] | None
    despite: frozenset[str]
    within: int


class Reader:
    """One question, and the signs found in it so far.

    Args:
        text: the question.
        vocabulary: what the rules are made of.
        sign: gives a part of a pattern as a regular expression.
        context: the cues of the rules' file.
    """

    def __init__(
        self, text: Folded, vocabulary: Vocabulary, sign: Callable[[str], re.Pattern[str]], context: Context
    ) -> None:
        self.text, self.sign, self.context = text, sign, context
        self.absent = vocabulary.absent(text.text)
        self._found: dict[str, list[tuple[Span, str | None]]] = {}
        self._readings: dict[tuple[Span, ...], str | None] = {}

    def match(self, rule: QuestionRule) -> tuple[str, ...] | None:
        """Return the words by which a rule holds, or None."""
        absent = self.absent
        for pattern in rule.patterns:
            if not pattern.needs & absent and (found := self._together(pattern, rule)):
                return tuple(self.text.text[start:end] for start, end in sorted(found))
        return None

    def _together(self, pattern: Pattern, rule: QuestionRule) -> Sequence[Span] | None:
        """Return where the signs of a pattern stand not too far from each other."""
        if len(pattern.parts) == 1:
            span = next(self._signs(pattern.parts[0], rule), None)
            return [span] if span else None
        signs = [[(span, part) for span in self._signs(part, rule)] for part in pattern.parts]
        if not all(signs):
            return None
        last: dict[str, Span] = {}
        for span, part in sorted(sign for of_part in signs for sign in of_part):
            last[part] = span
            spans = last.values()
            if len(last) == len(signs) and max(s for s, _ in spans) - min(e for _, e in spans) <= rule.within:
                return list(spans)
        return None

    def _signs(self, part: str, rule: QuestionRule) -> Iterator[Span]:
        """Yield where a sign is present."""
        if part not in self._found:
            self._found[part] = list(self._read(part))
        for span, reading in self._found[part]:
            if (reading is None or reading in rule.despite) and not self._is_excused(rule, span):
                yield span

    def _read(self, part: str) -> Iterator[tuple[Span, str | None]]:
        """Yield where a sign stands, and what it is there."""
        for found in self.sign(part).finditer(self.text.text):
            span, *gaps = found.regs
            if found.regs not in self._readings:
                gaps = [gap for gap in gaps if gap[0] >= 0]
                self._readings[found.regs] = self.context.reading(self.text, *span, gaps)
            yield span, self._readings[found.regs]

    def _is_excused(self, rule: QuestionRule, span: Span) -> bool:
        """Tell whether what a rule excuses stands around a sign."""
        if rule.unless is None:
            return False
        start, end = span
        text = self.text.text
        before = text[max(0, start - REACH) : start].rpartition(SENTENCE)[2]
        # An excuse does not reach over what begins anew: 已经出院了，今天又抽搐.
        before = before[self.context.renewed(before) :]
        after = text[end : end + REACH].partition(SENTENCE)[0]
        found = text[start:end]
        return bool(
            rule.unless.search(f"{before}{FOUND_MARK}{after}") or rule.unless.search(f"{before}{found}{after}")
        )
