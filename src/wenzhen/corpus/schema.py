"""What a consultation is, in every room: the departments, the columns, and which text is the question."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Features

DEPARTMENTS = ("男科", "内科", "妇产科", "肿瘤科", "儿科", "外科")

# Folder and file of each department in the original corpus, and how many question-answer pairs it holds there.
DATA_FOLDER = "Data_数据"
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
REPORT_FILE = "report.json"
# Marks a folder as a dataset that `DatasetDict.save_to_disk` has written.
DATASET_FILE = "dataset_dict.json"
# What every part relies on.
COLUMNS = ("id", "department", "sub_department", "title", "question", "answer")
TEXT_COLUMNS = ("title", "question", "answer")


@dataclass(frozen=True, slots=True)
class Consultation:
    """One question-answer pair; `department` is one of [`DEPARTMENTS`] or another that the corpus has."""

    department: str
    sub_department: str
    title: str
    question: str
    answer: str

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the content's SHA-1: the same row has the same id in every build."""
        fields = (self.department, self.sub_department, self.title, self.question, self.answer)
        content = "\x1f".join(fields)
        if content.count("\x1f") >= len(fields) or "\x1e" in content:
            # Escaped, so that the separator inside a field is none.
            content = "\x1f".join(field.replace("\x1e", "\x1e\x1e").replace("\x1f", "\x1e_") for field in fields)
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
    title, question = title.strip(), question.strip()
    title = "" if title == NO_QUESTION else title
    question = "" if question == NO_QUESTION else question
    if with_title and title and question:
        return f"{title}\n{question}"
    return question or title


def features(departments: Sequence[str] = DEPARTMENTS) -> "Features":
    """Return the columns of every split; `too_long` marks a record beyond the length bounds it was built with."""
    from datasets import ClassLabel, Features, Value

    return Features(
        {
            "id": Value("string"),
            "department": ClassLabel(names=list(departments)),
            "sub_department": Value("string"),
            "title": Value("string"),
            "question": Value("string"),
            "answer": Value("string"),
            "too_long": Value("bool"),
        }
    )
