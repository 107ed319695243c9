import hashlib
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from datasets import ClassLabel, Value

from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES, SOURCE_SIZES, Consultation, features, question_text

EXAMPLE = Consultation("内科", "消化科", "胃痛怎么办", "饭后胃痛两天", "少量多餐。")


def test_the_original_has_792099_pairs_in_six_departments():
    assert sum(SOURCE_SIZES.values()) == 792_099
    assert set(SOURCE_SIZES) == set(SOURCE_FILES) == set(DEPARTMENTS)
    assert len(DEPARTMENTS) == 6


def test_each_source_file_lies_in_a_folder_named_after_its_department():
    assert {name: PurePosixPath(path).parent.name.split("_")[1] for name, path in SOURCE_FILES.items()} == {
        name: name for name in DEPARTMENTS
    }


def test_columns_of_the_contract():
    columns = features()
    assert list(columns) == ["id", "department", "sub_department", "title", "question", "answer", "too_long"]
    assert columns["department"] == ClassLabel(names=["男科", "内科", "妇产科", "肿瘤科", "儿科", "外科"])
    assert columns["too_long"] == Value("bool")
    assert all(columns[name] == Value("string") for name in columns if name not in ("department", "too_long"))


def test_departments_beyond_the_six_are_labels_too():
    assert features([*DEPARTMENTS, "眼科"])["department"].names[-2:] == ["外科", "眼科"]


@pytest.mark.parametrize(
    ("title", "question", "with_title", "expected"),
    [
        ("胃痛", "胃痛两天", False, "胃痛两天"),
        ("胃痛", "胃痛两天", True, "胃痛\n胃痛两天"),
        ("胃痛", "无", False, "胃痛"),
        ("胃痛", " 无 ", True, "胃痛"),
        ("胃痛", "", True, "胃痛"),
        ("无", "胃痛两天", True, "胃痛两天"),
        (" ", "　", True, ""),
        ("无", "无", False, ""),
        ("胃痛", "无力两天", False, "无力两天"),
    ],
)
def test_question_text_falls_back_to_the_title(title, question, with_title, expected):
    assert question_text(title, question, with_title) == expected


def test_question_text_of_a_consultation_leaves_the_title_out():
    assert EXAMPLE.question_text == "饭后胃痛两天"
    assert replace(EXAMPLE, question="").question_text == "胃痛怎么办"


def test_id_is_the_start_of_the_sha1_over_all_fields():
    joined = "内科\x1f消化科\x1f胃痛怎么办\x1f饭后胃痛两天\x1f少量多餐。"
    assert EXAMPLE.id == hashlib.sha1(joined.encode()).hexdigest()[:16]


@pytest.mark.parametrize("field", ["department", "sub_department", "title", "question", "answer"])
def test_id_depends_on_every_field(field):
    assert replace(EXAMPLE, **{field: "别的"}).id != EXAMPLE.id


def test_id_tells_apart_texts_that_moved_between_fields():
    assert replace(EXAMPLE, title="胃痛", question="两天").id != replace(EXAMPLE, title="胃痛两", question="天").id


def test_id_of_a_lone_surrogate_does_not_fail():
    assert len(replace(EXAMPLE, title="\ud800").id) == 16


def test_the_separator_inside_a_field_makes_no_two_records_one():
    variants = [("a\x1fb", "c"), ("a", "b\x1fc"), ("a\x1e_b", "c"), ("a\x1e", "\x1fb\x1fc"), ("a\x1e\x1e_b", "c")]
    assert len({Consultation("内科", "", title, question, "答").id for title, question in variants}) == len(variants)
