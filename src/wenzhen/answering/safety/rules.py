"""The rules of a file, put to questions and answers."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wenzhen.answering.safety.answers import AnswerChecker, Finding
from wenzhen.answering.safety.folding import readings
from wenzhen.answering.safety.loading import RULES_FILE, RuleFile, load_rules
from wenzhen.answering.safety.questions import Reader
from wenzhen.models import SAFETY_RULES


@dataclass(frozen=True, slots=True)
class SafetyNotice:
    """What stands in the place of an answer where a rule has recognised an emergency.

    Attributes:
        rule: its name.
        category: the kind of emergency.
        title: a headline.
        advice: what to do, in Chinese.
        advice_en: the same in English.
        matched: the words by which the rule holds, in one spelling.
        version: of the rules.
    """

    rule: str
    category: str
    title: str
    advice: str
    advice_en: str
    matched: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A generated answer as it may be shown, and what was found in it."""

    text: str
    findings: tuple[Finding, ...]


def rules_file(folder: Path) -> Path:
    """Return the file with a model folder's rules: the folder's own, or else the project's."""
    own = folder / SAFETY_RULES
    # A link that leads nowhere, or a folder, is no missing file: reading it says what is wrong.
    return own if own.exists() or own.is_symlink() else RULES_FILE


class SafetyRules:
    """The rules of a file; may be asked by several threads at once.

    Args:
        file: in the form of rules.yaml; None for that.

    Raises:
        UsageError: there is none, or something in it is not as it must be.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._rules = _default_rules() if file in (None, RULES_FILE) else load_rules(Path(file))
        self.version = self._rules.version
        self.categories = tuple(dict.fromkeys(rule.category for rule in self._rules.questions))

    def check_question(self, question: str) -> SafetyNotice | None:
        """Return the notice of the gravest rule that holds for a question, None where none does."""
        for text in readings(question):
            reader = Reader(text, self._rules.vocabulary, self._rules.sign, self._rules.context)
            for rule in self._rules.questions:
                if matched := reader.match(rule):
                    notice = self._rules.notices[rule.notice]
                    return SafetyNotice(
                        rule=rule.id,
                        category=rule.category,
                        title=notice.title,
                        advice=notice.advice,
                        advice_en=notice.advice_en,
                        matched=matched,
                        version=self.version,
                    )
        return None

    def check_answer(self, text: str) -> CheckedAnswer:
        """Mark or withhold what the rules say of a whole answer."""
        checker = self._checker()
        shown = checker.add(text) + checker.finish()
        return CheckedAnswer(shown, tuple(checker.findings))

    def check_stream(self, pieces: Iterable[str]) -> Generator[str, None, None]:
        """Yield a growing answer in checked pieces, which join to `check_answer(whole).text`.

        What may be a part of something that is marked or withheld waits until that is known.
        """
        checker = self._checker()
        for piece in pieces:
            if shown := checker.add(piece):
                yield shown
        if shown := checker.finish():
            yield shown

    def _checker(self) -> AnswerChecker:
        """Return what checks one answer."""
        return AnswerChecker(self._rules.answers, self._rules.beginning)


@cache
def _default_rules() -> RuleFile:
    """Return the project's own rules, read once."""
    return load_rules(RULES_FILE)
