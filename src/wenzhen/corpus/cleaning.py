"""What is done to the text of a record before it is kept."""

import re

from wenzhen.corpus.schema import NO_QUESTION, Consultation

_NOT_A_WORD = re.compile(r"[\W_]+")


def normalized(text: str) -> str:
    """Return the text without white space, punctuation and case: what two wordings of the same thing share."""
    return _NOT_A_WORD.sub("", text).casefold()


def cleaned(consultation: Consultation) -> Consultation:
    """Return the record without surrounding white space, and with an empty question where it says 无."""
    question = consultation.question.strip()
    return Consultation(
        department=consultation.department,
        sub_department=consultation.sub_department.strip(),
        title=consultation.title.strip(),
        question="" if question == NO_QUESTION else question,
        answer=consultation.answer.strip(),
    )
