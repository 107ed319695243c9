"""What is done to the text of a record before it is kept. Nothing is normalized that a reader would see.

NFKC would turn Chinese punctuation and full-width forms into Western ones, so it is no step here.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Collection

from wenzhen.corpus.contacts import mask_contacts, may_hold_contacts
from wenzhen.corpus.schema import NO_QUESTION, Consultation

# In the order in which they are done.
CLEANING_STEPS = ("control", "html", "spaces", "no_question", "contacts")

_NOT_A_WORD = re.compile(r"[\W_]+")
# With how often it was escaped again, as `&amp;amp;lt;`.
_ENTITY = re.compile(r"&(?:(?:amp;)*(#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|(?!amp;)[A-Za-z][A-Za-z0-9]{1,31};)|(?:amp;)++)")
_ATTRIBUTE = r"""\s+[A-Za-z][\w:-]*+\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[!-;=?-~]++)"""
_ATTRIBUTES = rf"(?:{_ATTRIBUTE}|\s+[A-Za-z][A-Za-z:-]*+)*+\s*+/?"
_BREAK_TAG = re.compile(rf"</?(?:br|hr){_ATTRIBUTES}>|</(?:p|div|li|tr|h[1-6])\s*+>", re.IGNORECASE)
# Known names only: in a text, `<140` and `<某药>` are no tags, and `x<i or y>3` compares. So may `x<p>y`.
_TAG = re.compile(
    r"<!--(?:(?!<!--|-->).)*+-->|"
    r"</?(?:big|blockquote|body|center|code|dd|div|dl|dt|em|font|form|h[1-6]|head|html|iframe|img|input|"
    r"label|li|link|meta|ol|option|pre|script|section|small|span|strike|strong|style|sub|sup|table|tbody|td|th|thead|"
    rf"title|tr|tt|ul){_ATTRIBUTES}>|"
    rf"</[abipsu]\s*+>|<[abipsu](?:{_ATTRIBUTE})++\s*+/?>|<[abipsu]\s*+/>|"
    r"(?:(?<=[A-Za-z0-9\]])|(?<=[A-Za-z0-9\]] ))<(?P<compared>[abipsu])\s*+>|<[abipsu]\s*+>",
    re.IGNORECASE | re.DOTALL,
)
_CLOSING_TAG = re.compile(r"</([abipsu])\s*+>", re.IGNORECASE)
# Absurd nestings alone need more: `<<b>b>` is one deep.
_PASSES = 8
# Control characters but tab and line break, line and paragraph separators, and marks that are not seen; a joiner
# (U+200D) stays, for it holds an emoji's parts together.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]"
)
_LINE_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANK = r" \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SPACES = re.compile(rf"[{_BLANK}]{{2,}}|[\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]|[{_BLANK}]\n|\n[{_BLANK}\n]")
_BREAKS = re.compile(r" ?\n[ \n]*")
_RUN = re.compile(rf"[{_BLANK}]+")


def normalized(text: str) -> str:
    """Return the text without white space, punctuation and case: what two wordings of the same thing share."""
    return _NOT_A_WORD.sub("", text).casefold()


def without_control_characters(text: str) -> str:
    """Make every line end `\\n`, and take away control characters and marks that are not seen."""
    return _CONTROL.sub("", _LINE_BREAK.sub("\n", text))


def without_html(text: str) -> str:
    """Replace entities by their characters and known tags by nothing, or by a line break where they end a line."""
    # An entity may hold an entity, as `&amp;nbsp;` does, or a tag, and taking a tag away may make another.
    for _ in range(_PASSES):
        before = text
        text = _ENTITY.sub(lambda match: without_control_characters(html.unescape(f"&{match[1] or 'amp;'}")), text)
        text = _without_tags(text)
        if text == before:
            break
    return text


def _without_tags(text: str) -> str:
    """Take known tags away; `<p>` behind a letter, digit or mask compares, unless the text closes it."""
    closed = {name.lower() for name in _CLOSING_TAG.findall(text)}

    def replacement(match: re.Match[str]) -> str:
        compared = match["compared"]
        return match[0] if compared and compared.lower() not in closed else ""

    return _TAG.sub(replacement, _BREAK_TAG.sub("\n", text))


def without_space_runs(text: str) -> str:
    """Make a run of spaces of any kind one space, and line breaks with what blank is around them one line break."""
    return _BREAKS.sub("\n", _RUN.sub(" ", text))


class Cleaner:
    """Cleans records and counts what it does.

    Attributes:
        changed: by step of [`CLEANING_STEPS`] that is done, the number of records that it changed.
        masked: by kind of contact, how many were masked.
    """

    def __init__(self, skip: Collection[str] = ()) -> None:
        self.changed = dict.fromkeys((step for step in CLEANING_STEPS if step not in skip), 0)
        self.masked = Counter[str]()

    def clean(self, record: Consultation) -> Consultation:
        """Return the record cleaned, without surrounding white space in any case."""
        texts: tuple[str, ...] = (record.sub_department, record.title, record.question, record.answer)
        # Most records need none of it, and looking at one text is cheaper than at four.
        joined = "|".join(texts)
        if _CONTROL.search(joined):
            texts = self._apply("control", without_control_characters, texts)
            joined = "|".join(texts)
        if "&" in joined or "<" in joined:
            texts = self._apply("html", without_html, texts)
            joined = "|".join(texts)
        if _SPACES.search(joined):
            texts = self._apply("spaces", without_space_runs, texts)
            joined = "|".join(texts)
        if may_hold_contacts(joined):
            texts = self._apply("contacts", lambda text: mask_contacts(text, self.masked), texts)
        sub_department, title, question, answer = (text.strip() for text in texts)
        if question == NO_QUESTION and "no_question" in self.changed:
            self.changed["no_question"] += 1
            question = ""
        return Consultation(record.department, sub_department, title, question, answer)

    def _apply(self, step: str, change: Callable[[str], str], texts: tuple[str, ...]) -> tuple[str, ...]:
        """Do a step unless it is skipped, and count the record if it changes."""
        if step not in self.changed:
            return texts
        changed = tuple(change(text) for text in texts)
        self.changed[step] += changed != texts
        return changed
