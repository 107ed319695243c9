"""What the words around a sign make of it: denied, past, or only asked about."""

import re
from collections.abc import Mapping, Sequence

from wenzhen.answering.safety.folding import CLAUSE, SENTENCE, Folded
from wenzhen.answering.safety.patterns import FOUND_MARK, Vocabulary

# What a sign may be other than present; a rule may count it all the same (`despite`).
READINGS = ("denied", "past", "asked", "supposed")
# The lists under `context`; rules.yaml says what each is for.
CUES = (
    *("denied", "denied_behind", "filler", "listed", "not_denied", "doing"),
    *("past", "moment", "past_behind", "over", "present", "sudden", "again", "anew"),
    *("asked", "told", "supposed", "own", "now"),
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
        # Between the denial and the sign stand filling words, and other items of the same list: 没有咳嗽、胸痛. What
        # comes behind an item and a space is none of the list: 无发热 胸痛.
        self._denied = re.compile(
            f"{any_of['denied']} ?(?:{any_of['filler']} ?|{any_of['listed']}|{_ITEM}[{_JOINTS}] ?)*$"
        )
        # What is done or begins in the midst of a list is none of its items: 没有糖尿病、吃了一瓶安眠药.
        self._no_item = re.compile(f"[、 ]{_NOT_ENDS}*?(?:{any_of['doing']}|{any_of['sudden']})")
        # The same behind: 胸痛、气短等症状都没有.
        self._denied_behind = re.compile(
            f"(?:[{_JOINTS}][^{CLAUSE}{SENTENCE}{_JOINTS}]{{1,8}}?)*? ?"
            f"{any_of['denied_behind']}(?:[{CLAUSE}{SENTENCE}]|$)"
        )
        self._past = re.compile(any_of["past"])
        # A clause of its own, 去年，, and what shows behind it that it is meant for the next.
        self._moment = re.compile(f" ?(?:{_NOT_ENDS}{{0,4}}{any_of['moment']})?")
        self._told_of = re.compile("[过曾因]|得了")
        self._sudden = re.compile(any_of["sudden"])
        self._anew = re.compile(f"{any_of['anew']}|{any_of['sudden']}")
        self._past_behind = re.compile(f"{_NOT_ENDS}{{0,4}}?{any_of['past_behind']}")
        self._over = re.compile(any_of["over"])
        self._present = re.compile(any_of["present"])
        self._again = re.compile(any_of["again"])
        self._asked = re.compile(any_of["asked"])
        self._told = re.compile(any_of["told"])
        self._supposed = re.compile(any_of["supposed"])
        self._own = re.compile(any_of["own"])
        self._now = re.compile(any_of["now"])

    def reading(self, text: Folded, start: int, end: int, gaps: Sequence[tuple[int, int]]) -> str | None:
        """Return what a sign is other than present, as one of [`READINGS`], or None.

        Args:
            text: the question.
            start: where the sign begins in `text.text`.
            end: where it ends.
            gaps: the places within it that hold words of the patient's.
        """
        before, found, after = text.around(start, end, REACH)
        sentence = before.rpartition(SENTENCE)[2]
        clause = sentence.rpartition(CLAUSE)[2]
        rest = re.split(f"[{CLAUSE}{SENTENCE}]", after, maxsplit=1)[0]
        within = [text.around(*gap, REACH)[1] for gap in gaps]
        if self._is_denied(clause, found) or any(map(self._is_denied, within)) or self._denied_behind.match(after):
            return "denied"
        if self._is_past(sentence, found, after):
            return "past"
        if any(map(self._asked.search, [f"{clause}{FOUND_MARK}{rest}", *(f"{gap}{FOUND_MARK}" for gap in within)])):
            return "asked"
        return "supposed" if self._is_supposed(sentence, found, after) else None

    def renewed(self, before: str) -> int:
        """Return where, in what stands before a sign, something begins anew; 0 where nothing does."""
        return max((found.start() for found in self._anew.finditer(before)), default=0)

    def _is_denied(self, scope: str, found: str = "") -> bool:
        """Tell whether what stands right behind a piece of text is denied by it."""
        # As long as what it takes the place of: a filler could stand there.
        scope = self._not_denied.sub(lambda found: "_" * len(found[0]), scope)
        denied = self._denied.search(scope)
        return denied is not None and not self._no_item.search(denied[0] + found)

    def _is_past(self, sentence: str, found: str, after: str) -> bool:
        """Tell whether a sign behind the beginning of a sentence is one of former times."""
        for past in self._past.finditer(sentence):
            if self._reaches(sentence[past.end() :], found, after):
                return not self._again.search(after)
        return self._past_behind.match(after) is not None or self._is_over(sentence, after)

    def _reaches(self, between: str, found: str, after: str) -> bool:
        """Tell whether a word of former times holds of a sign behind it; in doubt it does not."""
        if self._present.search(between):
            return False
        head, comma, rest = between.rpartition(CLAUSE)
        ended = after.startswith("过")
        if comma and not (self._moment.fullmatch(head) and (ended or self._told_of.search(rest))):
            return False
        # 去年突然晕倒 is of the past, 去年做了支架突然晕倒 may not be.
        sudden = self._sudden.search(rest + found, 2)
        return ended or not sudden or sudden.start() > len(rest)

    def _is_over(self, sentence: str, after: str) -> bool:
        """Tell whether the sentence goes on to say how a sign that began nowhere near the present has ended."""
        if not self._over.search(after.partition(SENTENCE)[0]):
            return False
        return not self._present.search(sentence) and not self._again.search(after)

    def _is_supposed(self, sentence: str, found: str, after: str) -> bool:
        """Tell whether a sign behind the beginning of a sentence is what might be, or is only told of."""
        if self._is_last_word(self._told, sentence):
            return True
        if not (cues := list(self._supposed.finditer(sentence))):
            return False
        behind = sentence[cues[-1].end() :]
        # Who asks what to do if the own child has drunk a poison asks for no knowledge.
        is_real = self._own.search(behind + found) or self._now.search(behind + found + after)
        return not is_real and not self._present.search(behind)

    def _is_last_word(self, cue: re.Pattern[str], sentence: str) -> bool:
        """Tell whether a cue stands in a sentence, and nothing of the present behind it."""
        cues = list(cue.finditer(sentence))
        return bool(cues) and not self._present.search(sentence, cues[-1].end())
