"""What a consultation is, in every room: the departments, the columns, and which text is the question."""

import hashlib
from dataclasses import dataclass

from datasets import ClassLabel, Features, Value

DEPARTMENTS = ("男科", "内科", "妇产科", "肿瘤科", "儿科", "外科")

# Folder and file of each department in the original corpus, and how many question-answer pairs it holds there.
SOURCE_FILES = {
    "男科": "Andriatria_男科/男科5-13000.csv",
    "内科": "IM_内科/内科5000-33000.csv",
    "妇产科": "OAGD_妇产科/妇产科6-28000.csv",
    "肿瘤科": "Oncology_肿瘤科/肿瘤科5-10000.csv",
    "儿科": "Pediatric_儿科/儿科5-14000.csv",
    "外科": "Surgical_外科/外科5-14000.csv",
}
SOURCE_SIZES = {"男科": 94_596, "内科": 220_606, "妇产科": 183_751, "肿瘤科": 75_553, "儿科": 101_602, "外科": 115_991}

NO_QUESTION = "无"
FACTS_FILE = "facts.json"


@dataclass(frozen=True, slots=True)
class Consultation:
    """One question-answer pair of the corpus; `department` is one of [`DEPARTMENTS`]."""

    department: str
    sub_department: str
    title: str
    question: str
    answer: str

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the content's SHA-1: the same row has the same id in every build."""
        content = "\x1f".join((self.department, self.sub_department, self.title, self.question, self.answer))
        return hashlib.sha1(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def question_text(self) -> str:
        """The text that asks: see [`question_text`]."""
        return question_text(self.title, self.question)


def question_text(title: str, question: str, with_title: bool = False) -> str:
    """Return the text that asks: the question, or the title where the question is 无 or empty.

    Args:
        title: the consultation's short title.
        question: the patient's own words.
        with_title: put the title before the question where both say something.
    """
    title, question = ("" if text.strip() == NO_QUESTION else text.strip() for text in (title, question))
    if with_title and title and question:
        return f"{title}\n{question}"
    return question or title


def features() -> Features:
    """Return the columns of every split of a dataset."""
    return Features(
        {
            "id": Value("string"),
            "department": ClassLabel(names=list(DEPARTMENTS)),
            "sub_department": Value("string"),
            "title": Value("string"),
            "question": Value("string"),
            "answer": Value("string"),
        }
    )
