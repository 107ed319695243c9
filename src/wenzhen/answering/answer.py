"""The answer object: all that is said in reply to a question, and all that it rests on."""

from dataclasses import dataclass

from wenzhen.answering.departments import DepartmentGuess
from wenzhen.answering.evidence import Evidence
from wenzhen.answering.safety import Finding, SafetyNotice

NOTICE = "以上内容由机器生成，可能有错，不是医生的诊断或处方；不适请就医，紧急情况请拨打120。"
# Beside what no model wrote.
FIXED_NOTICE = "以上是固定的提示，没有生成回答，也不是医生的诊断；不适请就医，紧急情况请拨打120。"
NOT_COVERED = (
    "语料库里没有与这个问题相近的问诊，模型没有依据，不作回答。可以换一种问法，一次只问一种病的一件事；"
    "症状严重，或病人是婴幼儿、孕妇、老人，请不要在这里等，马上就医或拨打120。"
)
UNCHECKED = "旁边没有可对照的问诊，无法判断语料库是否涉及这个问题：回答可能与问题毫无关系。"
UNSURE = "模型对这个回答没有把握；请对照相近的问诊，以医生的意见为准。"


def percent(share: float) -> str:
    """Write a probability; none of a model's is a certainty."""
    return "<1%" if share < 0.01 else ">99%" if share > 0.99 else f"{share:.0%}"


@dataclass(frozen=True, slots=True)
class Confidence:
    """How much speaks for an answer.

    Attributes:
        similarity: of the nearest consultation, 0 to 1; None without evidence.
        probability: of the generated answer, the geometric mean over its tokens; None where nothing was generated.
    """

    similarity: float | None
    probability: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to one question.

    Attributes:
        question: as the model reads it.
        text: what the model wrote and the rules let pass; empty where a rule answered, or the corpus does not cover
            the question.
        ended: whether the model ended by itself, rather than at the length limit.
        unknown: the question's characters that the model has never seen: it answers as if they were not there.
        safety: where the question tells of an emergency, what to do; nothing is generated then.
        findings: what the rules marked or withheld in the text.
        department: that the question seems to belong to; None without a classifier.
        evidence: the nearest consultations of the training data, the nearest first; the rules withhold and mark in
            them what they do in an answer.
        confidence: how much speaks for the answer; None while it is being written, and in an emergency.
        caveat: what a reader should know before the text, empty where there is nothing.
        decoding: how the text was written, in words.
        engine: what computed it.
        model: the name of the model's folder.
        revision: a hash of all that the model's answers depend on.
        seconds: from the question to here.
        notice: belongs beside the text wherever it is shown.
    """

    question: str
    text: str = ""
    ended: bool = False
    unknown: str = ""
    safety: SafetyNotice | None = None
    findings: tuple[Finding, ...] = ()
    department: DepartmentGuess | None = None
    evidence: tuple[Evidence, ...] = ()
    confidence: Confidence | None = None
    caveat: str = ""
    decoding: str = ""
    engine: str = ""
    model: str = ""
    revision: str = ""
    seconds: float = 0.0
    notice: str = NOTICE
