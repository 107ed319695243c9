"""One path from a question to an answer, for the command line, the demo, files of questions and programs.

normalize → safety → evidence → generate → check → answer: a question that a safety rule takes gets no generated text,
nor does one that the indexed consultations do not cover.
"""

import math
import time
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from wenzhen.answering.answer import FIXED_NOTICE, NOT_COVERED, UNCHECKED, UNSURE, Answer, Confidence
from wenzhen.answering.decoding import Decoding, describe
from wenzhen.answering.departments import DepartmentGuesser
from wenzhen.answering.engines import load_engine
from wenzhen.answering.evidence import Evidence, EvidenceIndex
from wenzhen.answering.safety import SafetyRules, rules_file
from wenzhen.errors import UsageError
from wenzhen.folders import name_of
from wenzhen.models import DEPARTMENTS, EVIDENCE
from wenzhen.models.digest import model_digest

# Digits of a model's hash, enough to tell a handful of models apart.
REVISION_LENGTH = 12
# Consultations beside an answer.
EVIDENCE_COUNT = 3
# Texts of consultations that are kept as they are shown: a question of a batch takes six.
QUOTED_TEXTS = 20_000
# Of beam search, that a visitor of a page or a service may ask for: nobody else is to wait for long.
MAX_BEAMS = 8


def without_controls(text: str, keep: str = "") -> str:
    """Return a text without surrounding white space and control characters, those to `keep` excepted."""
    if not text.isprintable():
        # Category C: control and format characters, and halves of surrogate pairs, which cannot be encoded.
        text = "".join(c for c in text if c in keep or not unicodedata.category(c).startswith("C"))
    return text.strip()


@lru_cache(QUOTED_TEXTS)
def quoted(rules: SafetyRules, text: str) -> str:
    """Return a text of a consultation as it may stand beside an answer: without control characters, which may steer a
    terminal, and without what the rules withhold from an answer."""
    return rules.check_answer(without_controls(text, keep="\n\t")).text


class Answerer:
    """Answers questions with the model of a folder, and with the index, classifier and safety rules that it holds.

    Args:
        folder: a model folder.
        name: of the model; None for the folder's.
        with_evidence: look for evidence, where the folder has an index.

    Raises:
        UsageError: the folder holds no model, or something damaged.
    """

    def __init__(self, folder: Path, name: str | None = None, with_evidence: bool = True) -> None:
        self.engine = load_engine(folder)
        self.rules = SafetyRules(rules_file(folder))
        indexed = with_evidence and (folder / EVIDENCE).is_dir()
        self.evidence = EvidenceIndex(folder / EVIDENCE) if indexed else None
        # A classifier whose training has not ended is none yet.
        classified = (folder / DEPARTMENTS / "model.safetensors").is_file()
        self.departments = DepartmentGuesser(folder / DEPARTMENTS) if classified else None
        self.folder = folder
        self.name = name or name_of(folder)
        self.revision = model_digest(folder)[:REVISION_LENGTH]

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
        """Answer one question; `decoding` None is the model's own way.

        Raises:
            UsageError: see [`normalize`].
        """
        ((_, answer),) = self.answer_all([self.normalize(question)], decoding)
        return answer

    def answer_all(
        self, questions: Sequence[str], decoding: Decoding | None = None, batch_size: int = 64
    ) -> Iterator[tuple[int, Answer]]:
        """Yield the number and the answer of each of several normalized questions, in any order.

        The model answers `batch_size` of them at a time. An answer's `seconds` are those until all were written,
        shared evenly among the questions.
        """
        start = time.perf_counter()
        answers = self.begin_all(questions, decoding)
        asked = [index for index, answer in enumerate(answers) if self.is_open(answer)]
        if asked:
            texts = [questions[index] for index in asked]
            written = dict(self.engine.generate(texts, decoding, batch_size))
            unrated = [number for number, answer in written.items() if answer.probability is None]
            rated = self.probabilities([texts[n] for n in unrated], [written[n].text for n in unrated], batch_size)
            probabilities = dict(zip(unrated, rated, strict=True))
            for number, index in enumerate(asked):
                text, ended = written[number].text, written[number].ended
                probability = probabilities.get(number, written[number].probability)
                answers[index] = self.finish(answers[index], text, ended, probability)
        seconds = (time.perf_counter() - start) / max(len(answers), 1)
        for index, answer in enumerate(answers):
            yield index, replace(answer, seconds=seconds)

    def stream(self, question: str, decoding: Decoding | None = None) -> Generator[Answer, None, None]:
        """Yield the answer as it grows: first what is known before a word is written, last the whole of it.

        Raises:
            UsageError: see [`normalize`]; raised before anything is generated.
        """
        start = time.perf_counter()
        text = self.normalize(question)
        (draft,) = self.begin_all([text], decoding)
        yield replace(draft, seconds=time.perf_counter() - start)
        if not self.is_open(draft):
            return
        pieces: list[str] = []
        shown = ""
        # A reader who leaves early must not keep the model writing.
        with (
            closing(overheard(self.engine.stream(text, decoding), pieces)) as heard,
            closing(self.rules.check_stream(heard)) as checked,
        ):
            for piece in checked:
                shown += piece
                yield replace(draft, text=shown, seconds=time.perf_counter() - start)
        written = "".join(pieces)
        (probability,) = self.probabilities([text], [written])
        answer = self.finish(draft, written, self.has_ended(written, decoding), probability)
        yield replace(answer, seconds=time.perf_counter() - start)

    def begin_all(self, questions: Sequence[str], decoding: Decoding | None) -> list[Answer]:
        """Return all that is known of normalized questions' answers before a word of them is written."""
        way = describe(self.engine.generation_config(decoding))
        answers = [
            Answer(
                question=question,
                unknown=self.engine.unknown_characters(question),
                safety=self.rules.check_question(question),
                decoding=way,
                engine=self.engine.name,
                model=self.name,
                revision=self.revision,
            )
            for question in questions
        ]
        answers = [answer if answer.safety else self.with_evidence(answer) for answer in answers]
        asked = [number for number, answer in enumerate(answers) if self.is_open(answer)]
        if self.departments and asked:
            guesses = self.departments.guess([questions[number] for number in asked])
            for number, guess in zip(asked, guesses, strict=True):
                answers[number] = replace(answers[number], department=guess)
        return [answer if self.is_open(answer) else replace(answer, notice=FIXED_NOTICE) for answer in answers]

    def with_evidence(self, answer: Answer) -> Answer:
        """Return an answer that has begun with the consultations nearest to its question, where there is an index.

        They are quoted as the rules have it: a dose that the model may not tell is none the safer for being a
        stranger's.
        """
        if not self.evidence:
            return replace(answer, caveat=UNCHECKED)
        evidence = tuple(map(self.quote, self.evidence.search(answer.question, EVIDENCE_COUNT)))
        similarity = evidence[0].similarity if evidence else 0.0
        covered = similarity >= self.evidence.least_similarity
        return replace(
            answer,
            evidence=evidence,
            confidence=Confidence(similarity, None),
            caveat="" if covered else NOT_COVERED,
        )

    def quote(self, found: Evidence) -> Evidence:
        """Return a consultation as it may stand beside an answer; see [`quoted`]."""
        return replace(
            found,
            department=without_controls(found.department),
            question=quoted(self.rules, found.question),
            answer=quoted(self.rules, found.answer),
        )

    def is_open(self, draft: Answer) -> bool:
        """Tell whether an answer that has begun is to be written by the model."""
        return draft.safety is None and draft.caveat != NOT_COVERED

    def finish(self, draft: Answer, text: str, ended: bool, probability: float | None) -> Answer:
        """Return the answer with the model's text, checked, and how much speaks for it."""
        checked = self.rules.check_answer(text)
        least = self.evidence.least_probability if self.evidence else None
        unsure = least is not None and probability is not None and probability < least
        return replace(
            draft,
            text=checked.text,
            findings=checked.findings,
            ended=ended,
            confidence=Confidence(draft.confidence.similarity if draft.confidence else None, probability),
            caveat=UNSURE if unsure else draft.caveat,
        )

    def probabilities(self, questions: list[str], texts: list[str], batch_size: int = 64) -> list[float | None]:
        """Return how probable the model finds answers, the geometric mean over the tokens of each; None for empty
        ones."""
        written = [number for number, text in enumerate(texts) if text]
        longest = int(self.engine.default_generation_config.max_new_tokens)
        statistics = self.engine.score(
            [questions[n] for n in written], [texts[n] for n in written], longest, batch_size, progress=False
        )
        found = dict(zip(written, statistics, strict=True))
        return [math.exp(-found[n][0] / found[n][1]) if n in found else None for n in range(len(texts))]

    def has_ended(self, text: str, decoding: Decoding | None) -> bool:
        """Tell whether a streamed answer is shorter than the limit at which it would have been cut."""
        limit = int(self.engine.generation_config(decoding).max_new_tokens)
        return self.engine.question_length(text) < limit


def overheard(pieces: Generator[str, None, None], heard: list[str]) -> Generator[str, None, None]:
    """Yield pieces, noting each."""
    with closing(pieces):
        for piece in pieces:
            heard.append(piece)
            yield piece
