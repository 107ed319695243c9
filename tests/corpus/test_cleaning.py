from dataclasses import astuple

import pytest

from wenzhen.corpus.cleaning import cleaned, normalized
from wenzhen.corpus.schema import Consultation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("您好，胃痛 怎么办？", "您好胃痛怎么办"),
        ("做CT、MRI", "做ctmri"),
        (" \t\r\n　", ""),
        ("？！…—_“”", ""),
        ("血压140/90", "血压14090"),
        ("㐂𠮷", "㐂𠮷"),
    ],
)
def test_normalized_keeps_letters_and_digits_only(text, expected):
    assert normalized(text) == expected


@pytest.mark.parametrize("other", ["胃痛，怎么办", "胃 痛怎么办？？", "\n胃痛怎么办。"])
def test_wordings_that_differ_in_punctuation_are_the_same(other):
    assert normalized(other) == normalized("胃痛怎么办")


def test_normalizing_twice_changes_nothing_more():
    once = normalized("Ａ型，B超 ẞ_ß")
    assert normalized(once) == once


@pytest.mark.parametrize(
    ("question", "expected"), [(" 胃痛\n", "胃痛"), ("无", ""), ("\u3000无 ", ""), ("", ""), ("无力", "无力")]
)
def test_cleaning_strips_every_field_and_empties_a_question_of_no_words(question, expected):
    record = Consultation("内科", " 消化科 ", "\t标题\u3000", question, " 第一行\n第二行\r\n")
    assert astuple(cleaned(record)) == ("内科", "消化科", "标题", expected, "第一行\n第二行")


def test_an_answer_or_title_of_that_word_stays():
    record = cleaned(Consultation("内科", "无", "无", "胃痛", "无"))
    assert (record.sub_department, record.title, record.answer) == ("无", "无", "无")


def test_cleaning_twice_changes_nothing_more():
    once = cleaned(Consultation("内科", " a ", " 无 ", " 无 ", "\n答 "))
    assert cleaned(once) == once
