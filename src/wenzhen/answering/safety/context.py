"""What the words around a sign make of it: denied, past, or only asked about."""

import re
from collections.abc import Mapping, Sequence

from wenzhen.answering.safety.folding import CLAUSE, SENTENCE, Folded
from wenzhen.answering.safety.patterns import FOUND_MARK, Vocabulary

# What a sign may be other than present; a rule may count it all the same (`despite`).
READINGS = ("denied", "past", "asked", "supposed")
# The lists under `context`; rules.yaml says what each is for.
CUES = (
    *("denied", "denied_behind", "filler", "not_denied"),
    *("past", "past_behind", "over", "present", "again"),
    *("asked", "supposed"),
)
# How far, in characters, the surroundings of a sign reach.
REACH = 60
_JOINTS = "、或和及与跟"
_NOT_ENDS = f"[^{CLAUSE}{SENTENCE}]"
_ITEM = f"[^{CLAUSE}{SENTENCE}{_JOINTS} _]{{1,8}}+"


class Context:
    """The cues of a rule file.

    Args:
        cues: expressions for each of [`CUES`].
        vocabulary: what they are made of.
    """

    def __init__(self, cues: Mapping[str, Sequence[str]], vocabulary: Vocabulary) -> None:
        any_of = {name: vocabulary.any_of(cues[name]) for name in CUES}
        self._not_denied = re.compile(any_of["not_denied"])
        # Between the denial and the sign stand filling words, and other items of the same list: 没有咳嗽、胸痛.
        self._denied = re.compile(f"{any_of['denied']}(?: |{any_of['filler']}|{_ITEM}[{_JOINTS}])*$")
        # The same behind: 胸痛、气短等症状都没有.
        self._denied_behind = re.compile(
            f"(?:[{_JOINTS}][^{CLAUSE}{SENTENCE}{_JOINTS}]{{1,8}}?)*? ?"
            f"{any_of['denied_behind']}(?:[{CLAUSE}{SENTENCE}]|$)"
        )
        # In the sign's clause, or closing the one before: 去年，.
        self._past = re.compile(f"{any_of['past']}(?:{_NOT_ENDS}{{0,4}}{CLAUSE})?({_NOT_ENDS}*)$")
        self._past_behind = re.compile(f"{_NOT_ENDS}{{0,4}}?{any_of['past_behind']}")
        self._over = re.compile(any_of["over"])
        self._present = re.compile(any_of["present"])
        self._again = re.compile(any_of["again"])
        self._asked = re.compile(any_of["asked"])
        self._supposed = re.compile(any_of["supposed"])

    def reading(self, text: Folded, start: int, end: int, gaps: Sequence[tuple[int, int]]) -> str | None:
        """Return what a sign is other than present, as one of [`READINGS`], or None.

        Args:
            text: the question.
            start: where the sign begins in `text.text`.
            end: where it ends.
            gaps: the places within it that hold words of the patient's.
        """
        before, _, after = text.around(start, end, REACH)
        sentence = before.rpartition(SENTENCE)[2]
        clause = sentence.rpartition(CLAUSE)[2]
        rest = re.split(f"[{CLAUSE}{SENTENCE}]", after, maxsplit=1)[0]
        within = [text.around(*gap, REACH)[1] for gap in gaps]
        if any(map(self._is_denied, (clause, *within))) or self._denied_behind.match(after):
            return "denied"
        if self._is_past(sentence, after):
            return "past"
        if any(map(self._asked.search, [f"{clause}{FOUND_MARK}{rest}", *(f"{gap}{FOUND_MARK}" for gap in within)])):
            return "asked"
        return "supposed" if self._is_supposed(sentence) else None

    def _is_denied(self, scope: str) -> bool:
        """Tell whether what stands right behind a piece of text is denied by it."""
        # As long as what it takes the place of: a filler could stand there.
        scope = self._not_denied.sub(lambda found: "_" * len(found[0]), scope)
        return self._denied.search(scope) is not None

    def _is_past(self, sentence: str, after: str) -> bool:
        """Tell whether a sign behind the beginning of a sentence is one of former times."""
        if not (past := self._past.search(sentence)):
            return self._past_behind.match(after) is not None or self._is_over(sentence, after)
        return not self._present.search(past[0]) and not self._again.search(after)

    def _is_over(self, sentence: str, after: str) -> bool:
        """Tell whether the sentence goes on to say how a sign that began nowhere near the present has ended."""
        if not self._over.search(after.partition(SENTENCE)[0]):
            return False
        return not self._present.search(sentence) and not self._again.search(after)

    def _is_supposed(self, sentence: str) -> bool:
        """Tell whether a sign behind the beginning of a sentence is what might be."""
        cues = list(self._supposed.finditer(sentence))
        return bool(cues) and not self._present.search(sentence, cues[-1].end())
