import html
from collections import Counter
from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenzhen.corpus.cleaning import (
    CLEANING_STEPS,
    Cleaner,
    normalized,
    without_control_characters,
    without_html,
    without_space_runs,
)
from wenzhen.corpus.schema import Consultation

PLAIN = Consultation("内科", "消化科", "胃痛怎么办", "饭后胃痛两天", "少量多餐。")
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # three people that two joiners make one picture


# --- what two wordings of the same thing share


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


# --- HTML


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Entities: by name, in decimal and hexadecimal digits, and escaped twice or three times.
        ("体温&gt;38&deg;C", "体温>38°C"),
        ("血压&#62;140", "血压>140"),
        ("血压&#x3e;140，&#X3E;90", "血压>140，>90"),
        ("&#32963;&#30171;", "胃痛"),
        ("&#x80C3;&#x75DB;", "胃痛"),
        ("头痛&nbsp;发热", "头痛\xa0发热"),
        ("头痛&amp;nbsp;发热", "头痛\xa0发热"),
        ("头痛&amp;amp;发热", "头痛&发热"),
        ("血压&amp;amp;lt;140", "血压<140"),
        ("&ldquo;无大碍&rdquo;&hellip;", "“无大碍”…"),
        ("维生素B&amp;C", "维生素B&C"),
        ("&#128522;", "😊"),
        # What an entity hides is no control character afterwards.
        ("头痛&#8203;发热&zwnj;&lrm;&shy;", "头痛发热"),
        ("头痛&#13;&#10;发热", "头痛\n\n发热"),
        # No entities.
        ("A&B", "A&B"),
        ("A & B; C", "A & B; C"),
        ("&不明;", "&不明;"),
        ("&unknown;", "&unknown;"),
        ("AT&T", "AT&T"),
        # Tags: those that end a line become its end.
        ("<p>多喝水</p><p>多休息</p>", "多喝水\n多休息\n"),
        ("多喝水<br>多休息<br/>早睡<BR />忌酒", "多喝水\n多休息\n早睡\n忌酒"),
        ("多喝水<br clear='all'>多休息</br>早睡<hr width=80%>忌酒", "多喝水\n多休息\n早睡\n忌酒"),
        ("<ul><li>流食</li><li>半流食</li></ul>", "流食\n半流食\n"),
        ("<h2>用药</h2>遵医嘱", "用药\n遵医嘱"),
        ('见<a href="x.html" target=_blank>说明</a>。', "见说明。"),
        ("<STRONG>忌</STRONG><font color=red>辛辣</font>", "忌辛辣"),
        ("<div\nclass='a'>胃镜</div>", "胃镜\n"),
        ("H<sub>2</sub>O", "H2O"),
        ("胃<!-- 草稿\n第二行 -->痛", "胃痛"),
        ("&lt;p&gt;胃痛&lt;/p&gt;", "胃痛\n"),
        ("&amp;lt;b&amp;gt;胃痛", "胃痛"),
        ("<<b>b>胃痛", "胃痛"),
        ("&#60;b&#x3E;胃痛", "胃痛"),
        ("胃<!-- 一 <!-- 二 --> 三 -->痛", "胃痛"),
        ("维生素B<b>12</b>", "维生素B12"),
        ("维生素B<b style='color:red'>片", "维生素B片"),
        ("多喝水<p>多休息", "多喝水多休息"),
        ("做CT\n<p>多休息", "做CT\n多休息"),
        ('<img src=/a.png?b=1 alt="胃镜">胃镜', "胃镜"),
        # No tags.
        ("血压<140且>90", "血压<140且>90"),
        ("血压<140>", "血压<140>"),
        ("a<b>c的情况", "a<b>c的情况"),
        ("如果x<p>y", "如果x<p>y"),
        ("当x <i> 3时", "当x <i> 3时"),
        ("甲<b 且丙>丁", "甲<b 且丙>丁"),
        ("若x<i 或 y>3 则用药", "若x<i 或 y>3 则用药"),
        ("若x<i or y>3", "若x<i or y>3"),
        ("若x<th 或 y>3", "若x<th 或 y>3"),
        ("服用<某药>三天", "服用<某药>三天"),
        ("<阿莫西林>与<p53>", "<阿莫西林>与<p53>"),
        ("p<0.05，r>0.3", "p<0.05，r>0.3"),
        ("<bleeding>", "<bleeding>"),
        ("a < b > c", "a < b > c"),
        ("(>_<)", "(>_<)"),
        ("->见->下", "->见->下"),
    ],
)
def test_html(text, expected):
    assert without_html(text) == expected


@pytest.mark.parametrize("times", range(5))
@pytest.mark.parametrize("text", ["孕<8周 & HCG>1000", "“忌口”", "5′×3″"])
def test_html_undoes_escaping_however_often_it_was_done(text, times):
    escaped = text
    for _ in range(times):
        escaped = html.escape(escaped)
    assert without_html(escaped) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&" + "amp;" * 20_000 + "lt;", "<"),
        ("<!--" * 20_000, "<!--" * 20_000),
        # Tags nested that deep are left in part.
        ("<td" * 20_000 + ">" * 20_000, "<td" * 19_992 + ">" * 19_992),
        ("<b" * 20_000 + ">" * 20_000, "<b" * 20_000 + ">" * 20_000),
    ],
    ids=lambda text: text[:12],
)
def test_html_of_a_long_text_takes_no_longer_than_its_length(text, expected):
    # These would take minutes if a search, or a pass, went over the rest of the text for each of its places.
    assert without_html(text) == expected


# --- control characters and blanks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("第一\r\n第二\r第三\n第四", "第一\n第二\n第三\n第四"),
        ("第一\r\r\n第二", "第一\n\n第二"),
        ("第一\x0b第二\x0c第三\x85第四\u2028第五\u2029第六", "第一\n第二\n第三\n第四\n第五\n第六"),
        ("胃\x00痛\x07\x1b\x1c\x7f\x80\x9f", "胃痛"),
        ("胃\u200b痛\u200c\u200e\u200f\ufeff\u2060\xad\u202a\u202e\u2066\u2069", "胃痛"),
        ("胃\ufffe痛\uffff", "胃痛"),
        ("胃\t痛\n两天", "胃\t痛\n两天"),
        (FAMILY, FAMILY),
        ("❤\ufe0f", "❤\ufe0f"),
        ("不详\ufffd", "不详\ufffd"),
    ],
)
def test_control_characters(text, expected):
    assert without_control_characters(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("胃  痛", "胃 痛"),
        ("胃\t痛", "胃 痛"),
        ("胃\u3000痛", "胃 痛"),
        ("胃\u3000\u3000痛", "胃 痛"),
        ("胃\xa0痛\xa0 \u2003\u2009\u202f\u205f\u1680两天", "胃 痛 两天"),
        ("第一\n\n\n第二", "第一\n第二"),
        ("第一 \n 第二", "第一\n第二"),
        ("第一\u3000\n\xa0\n\t第二", "第一\n第二"),
        ("第一\n\u3000\u3000第二", "第一\n第二"),
        ("胃 痛\n两天", "胃 痛\n两天"),
    ],
)
def test_runs_of_blanks(text, expected):
    assert without_space_runs(text) == expected


def test_a_long_run_of_blanks_takes_no_longer_than_its_length():
    assert without_space_runs("胃" + " \u3000" * 50_000 + "痛" + " \n" * 50_000 + "热") == "胃 痛\n热"


# --- the cleaner

# By step a record that it alone changes, and what it makes of it.
STEP_CASES = {
    "control": (replace(PLAIN, title="胃痛\u200b怎么办"), PLAIN),
    "html": (replace(PLAIN, answer="少量&#22810;餐。"), PLAIN),
    "spaces": (replace(PLAIN, question="饭后\u3000\u3000胃痛两天"), replace(PLAIN, question="饭后 胃痛两天")),
    "no_question": (replace(PLAIN, question=" 无 "), replace(PLAIN, question="")),
    "contacts": (replace(PLAIN, answer="致电13800138000。"), replace(PLAIN, answer="致电[电话]。")),
}


def test_there_is_a_case_of_every_step():
    assert set(STEP_CASES) == set(CLEANING_STEPS)


@pytest.mark.parametrize("step", CLEANING_STEPS)
def test_a_step_is_done_and_counts_the_records_that_it_changes(step):
    cleaner = Cleaner()
    record, expected = STEP_CASES[step]
    assert [cleaner.clean(text) for text in (record, PLAIN, record)] == [expected, PLAIN, expected]
    assert cleaner.changed == {name: 2 if name == step else 0 for name in CLEANING_STEPS}
    assert list(cleaner.changed) == list(CLEANING_STEPS)


@pytest.mark.parametrize("step", CLEANING_STEPS)
def test_a_step_is_switched_off_alone(step):
    cleaner = Cleaner(skip={step})
    for name, (record, expected) in STEP_CASES.items():
        if name != step:
            assert cleaner.clean(record) == expected
    untouched = cleaner.clean(STEP_CASES[step][0])
    assert untouched == replace(STEP_CASES[step][0], question=STEP_CASES[step][0].question.strip())
    assert cleaner.changed == {name: 1 for name in CLEANING_STEPS if name != step}


def test_with_every_step_off_only_the_surrounding_blanks_go():
    cleaner = Cleaner(skip=CLEANING_STEPS)
    record = Consultation("内科", " 消化科\n", "\u3000胃&nbsp;痛", " 无\r\n", "\t致电  13800138000 ")
    assert astuple(cleaner.clean(record)) == ("内科", "消化科", "胃&nbsp;痛", "无", "致电  13800138000")
    assert cleaner.changed == {} and not cleaner.masked


@pytest.mark.parametrize("field", ["sub_department", "title", "question", "answer"])
def test_every_text_of_a_record_is_cleaned_and_the_record_counted_once(field):
    cleaner = Cleaner()
    dirty = "<b>查\u200b血</b>\u3000\u3000致电 13800138000"
    assert getattr(cleaner.clean(replace(PLAIN, **{field: dirty})), field) == "查血 致电 [电话]"
    everywhere = cleaner.clean(Consultation("内科", dirty, dirty, dirty, dirty))
    assert astuple(everywhere) == ("内科", *["查血 致电 [电话]"] * 4)
    assert cleaner.changed == {"control": 2, "html": 2, "spaces": 2, "no_question": 0, "contacts": 2}
    # Contacts are counted each, not by record.
    assert +cleaner.masked == Counter(telephone=5)


@pytest.mark.parametrize(
    ("question", "expected"),
    [("无", ""), (" 无\n", ""), ("<p>无</p>", ""), ("&#26080;", ""), ("", ""), ("无力", "无力"), ("无无", "无无")],
)
def test_a_question_of_no_words_is_emptied(question, expected):
    assert Cleaner().clean(replace(PLAIN, question=question)).question == expected


def test_an_answer_or_title_of_that_word_stays():
    record = Cleaner().clean(Consultation("内科", "无", "无", "胃痛", "无"))
    assert (record.sub_department, record.title, record.answer) == ("无", "无", "无")


def test_texts_of_two_fields_are_never_taken_for_one():
    record = Consultation("内科", "致电138", "0013", "8000 &", "lt;b")
    assert Cleaner().clean(record) == record


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # One step prepares what the next one finds.
        ("致电138&nbsp;0013\u3000\u30008000", "致电[电话]"),
        ("致电138\u200b00138000", "致电[电话]"),
        ("致<b>电</b>&#49;3800138000", "致电[电话]"),
        ("血压&#1\u200b2;", "血压"),
        ("血压<\u200bb>高", "血压高"),
        ("第一<br><br>&nbsp;第二", "第一\n第二"),
    ],
)
def test_steps_together(text, expected):
    assert Cleaner().clean(replace(PLAIN, answer=text)).answer == expected


@pytest.mark.parametrize("text", ["，。！？：；（）【】", "“”、…—～", "０１２３ＡＢａｂ％＋", "①②⑩Ⅱ㎎㎡℃‰", "½²μ㐂𠮷"])
def test_nothing_is_normalized_that_a_reader_would_see(text):
    assert Cleaner().clean(replace(PLAIN, answer=text)).answer == text


# Pieces that steps look for, halves of them that others may join, and ordinary text.
PIECES = [
    *["胃痛", "，", "无", " ", "\n", "\t", "\r", "\u3000", "\xa0", "\u200b", "\u2028", "\x00", FAMILY, "1", "138"],
    *["&", "amp;", "lt;", "gt;", "nbsp;", "#", "x", "60;", "#13;", "&#8203;", "&lt;", "<", ">", "/", "b", "br", "<p>"],
    *["</p>", "<!--", "-->", "0013", "8000", "13800138000", "微信", "abcdef", "QQ", "12345", "@", "www.", ".com"],
]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.text(max_size=20))


@settings(max_examples=400, deadline=None)
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), skip=st.sets(st.sampled_from(CLEANING_STEPS), max_size=2))
def test_cleaning_twice_changes_nothing_more(texts, skip):
    once = Cleaner(skip).clean(Consultation("内科", *texts))
    cleaner = Cleaner(skip)
    assert cleaner.clean(once) == once
    assert not any(cleaner.changed.values()) and not +cleaner.masked


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_a_clean_text_holds_nothing_that_a_step_would_change(text):
    cleaner = Cleaner()
    clean = cleaner.clean(replace(PLAIN, answer=text)).answer
    for step in (without_control_characters, without_html, without_space_runs):
        assert step(clean) == clean
    assert clean == clean.strip()


@settings(max_examples=200, deadline=None)
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
def test_a_count_says_whether_a_record_changed(texts):
    stripped = Consultation("内科", *(text.strip() for text in texts))
    cleaner = Cleaner()
    assert (cleaner.clean(stripped) != stripped) <= any(cleaner.changed.values())
