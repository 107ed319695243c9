"""One path from a question to an answer, for the command line, the demo and batches."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wenzhen.answering.decoding import Decoding
from wenzhen.answering.engines import load_engine
from wenzhen.errors import UsageError

NOTICE = "以上内容由机器生成，可能有错，不是医生的诊断或处方；不适请就医，紧急情况请拨打120。"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `notice` belongs beside `text` wherever it is shown; `ended` is off where the length limit cut it.

    `unknown` holds the question's characters that the model has never seen: it answers as if they were not there.
    """

    question: str
    text: str
    ended: bool
    unknown: str
    notice: str = NOTICE


def without_controls(text: str, keep: str = "") -> str:
    """Return a text without surrounding white space and control characters, those to `keep` excepted."""
    # Category C: control and format characters, and halves of surrogate pairs, which cannot be encoded.
    return "".join(c for c in text if c in keep or not unicodedata.category(c).startswith("C")).strip()


class Answerer:
    """Answers questions with the model of a folder.

    Args:
        folder: a model folder.

    Raises:
        UsageError: the folder is none.
    """

    def __init__(self, folder: Path) -> None:
        self.engine = load_engine(folder)

    def normalize(self, question: str) -> str:
        """Return the question without control characters and surrounding white space.

        Raises:
            UsageError: nothing is left, or more than the model reads.
        """
        text = without_controls(question, keep="\n\t")
        if not text:
            raise UsageError("the question is empty; ask in a sentence")
        length, limit = self.engine.question_length(text), self.engine.max_question_length
        if length > limit:
            unit = "characters" if length == len(text) else "tokens"
            raise UsageError(f"the question has {length:,} {unit}; this model reads at most {limit:,}: shorten it")
        return text

    def answer(self, question: str, decoding: Decoding | None = None) -> Answer:
        """Answer one question; `decoding` None is the model's own.

        Raises:
            UsageError: see [`normalize`].
        """
        ((_, answer),) = self.answer_all([self.normalize(question)], decoding)
        return answer

    def answer_all(self, questions: list[str], decoding: Decoding | None = None) -> Iterator[tuple[int, Answer]]:
        """Yield the number and the answer of each of several normalized questions, in any order."""
        for index, generated in self.engine.generate(questions, decoding):
            unknown = self.engine.unknown_characters(questions[index])
            yield index, Answer(questions[index], generated.text, generated.ended, unknown)

    def stream(self, question: str, decoding: Decoding | None = None) -> Iterator[str]:
        """Yield the growing answer to one question.

        Raises:
            UsageError: see [`normalize`]; raised before anything is generated.
        """
        text = ""
        for piece in self.engine.stream(self.normalize(question), decoding):
            text += piece
            yield text
