"""An answerer with everything that a model folder may hold, its parts played by stand-ins."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from wenzhen.answering.answerer import Answerer
from wenzhen.answering.departments import DepartmentGuess
from wenzhen.answering.evidence import Evidence
from wenzhen.answering.safety import CheckedAnswer, SafetyNotice

# What must never be more than text on the page.
HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> "
    "[a](javascript:alert(1)) ![b](http://example.com/b.png) $x^2$ ${document.title='taken'} {{constructor}} </s>"
)
EMERGENCY = "胸口剧痛"
UNCOVERED = "股票"


class Rules:
    """Knows one emergency, and lets every answer pass."""

    def check_question(self, question: str) -> SafetyNotice | None:
        if EMERGENCY not in question:
            return None
        return SafetyNotice("chest", "heart", "可能是心脏急症", "请立即拨打120。", "Call 120 now.", (EMERGENCY,), "1")

    def check_answer(self, text: str) -> CheckedAnswer:
        return CheckedAnswer(text, ())

    def check_stream(self, pieces: Iterable[str]) -> Generator[str, None, None]:
        yield from pieces


class Index:
    """Holds three consultations, one of them hostile."""

    least_similarity = 0.3
    least_probability = 0.5

    def search(self, question: str, count: int = 3) -> list[Evidence]:
        nearest = 0.1 if UNCOVERED in question else 0.8
        return [
            Evidence(f"c{number}", "外科", f"痔疮怎么办？{HOSTILE}", f"多喝水。{HOSTILE}", nearest - number / 100)
            for number in range(count)
        ]


class Guesser:
    """Guesses the same department always."""

    def guess(self, questions: Sequence[str]) -> list[DepartmentGuess]:
        return [DepartmentGuess("外科", 0.75, (("外科", 0.75), ("内科", 0.25))) for _ in questions]


def furnished(folder: Path) -> Answerer:
    """Return the answerer of a model folder with the stand-ins in it."""
    answerer = Answerer(folder)
    answerer.rules = Rules()  # type: ignore[assignment]
    answerer.evidence = Index()  # type: ignore[assignment]
    answerer.departments = Guesser()  # type: ignore[assignment]
    return answerer


class SlowWriting:
    """Makes an engine write a character every hundredth of a second, for ever; counts who listens."""

    def __init__(self) -> None:
        self.listeners = 0

    def stream(self, question: str, decoding: object = None) -> Iterator[str]:
        self.listeners += 1
        try:
            while True:
                time.sleep(0.01)
                yield "字"
        finally:
            self.listeners -= 1
