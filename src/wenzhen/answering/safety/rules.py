"""SKELETON, owned by [safety]: replace the insides, keep the names."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SafetyNotice:
    """What stands in the place of an answer where a rule has recognised an emergency."""

    rule: str
    category: str
    title: str
    advice: str
    advice_en: str
    matched: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in a generated answer: `action` is `mark` or `withhold`."""

    rule: str
    text: str
    action: str


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A generated answer as it may be shown, and what was found in it."""

    text: str
    findings: tuple[Finding, ...]


class SafetyRules:
    """The rules of a file."""

    def __init__(self, file: Path | None = None) -> None:
        self.version = "0"

    def check_question(self, question: str) -> SafetyNotice | None:
        """Return the notice of the gravest rule that a question matches."""
        return None

    def check_answer(self, text: str) -> CheckedAnswer:
        """Mark or withhold what the rules say of a whole answer."""
        return CheckedAnswer(text, ())

    def check_stream(self, pieces: Iterable[str]) -> Generator[str, None, None]:
        """Yield a growing answer in checked pieces, which join to `check_answer(whole).text`."""
        yield from pieces
