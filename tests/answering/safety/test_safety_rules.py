"""Which questions are taken for emergencies, and what is answered."""

from pathlib import Path

import pytest
import yaml

from wenzhen.answering.safety import SafetyNotice, SafetyRules

RULES = SafetyRules()
CASES = [
    case
    for name in ("cases.yaml", "cases_apart.yaml")
    for case in yaml.load(Path(__file__).with_name(name).read_text(encoding="utf-8"), yaml.CSafeLoader)
]
# In words that can be denied, past, and asked about.
SIGNS = ("胸痛", "呼吸困难", "晕厥", "抽搐", "咯血", "口角歪斜")


def category(question: str) -> str | None:
    notice = RULES.check_question(question)
    return notice.category if notice else None


def test_every_case_is_as_expected() -> None:
    assert len(CASES) >= 220
    assert sum(case["category"] is None for case in CASES) >= 90
    assert len({case["text"] for case in CASES}) == len(CASES)
    wrong = [
        (case["text"], case["category"], got) for case in CASES if (got := category(case["text"])) != case["category"]
    ]
    assert wrong == []


def test_every_category_has_cases() -> None:
    assert set(RULES.categories) == {case["category"] for case in CASES} - {None}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "sentence",
    [
        "没有{}",
        "无{}",
        "我没有明显的{}",
        "否认{}",
        "没有咳嗽、发热和{}",
        "没有发生过{}，吃饭正常",
        "只是乏力，{}没有",
        "{}、恶心等症状都没有",
        "从来没有过{}",
        "去年有过{}，检查正常",
        "三年前，有过{}",
        "我小时候有过{}",
        "有{}病史",
        "什么是{}",
        "如何预防{}",
        "{}有哪些原因",
        "感冒会不会引起{}",
        "如果{}怎么办",
        "这种药的副作用有{}吗",
        "我担心会{}",
    ],
)
def test_a_sign_that_is_not_there_is_no_emergency(sign: str, sentence: str) -> None:
    assert category(sentence.format(sign)) is None


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "sentence",
    [
        "突然{}",
        "不是没有{}",
        "没有发烧，但是{}",
        "没有发烧但是突然{}",
        "没有原因就{}",
        "不停地咳，{}",
        "不小心受凉，{}",
        "以前有过{}，现在又{}",
        "从去年开始一直{}",
        "以前身体很好，昨晚{}",
        "我爸突然{}",
        "{}没有缓解",
        "{}什么药都没有用",
        "头晕没有了，可是{}",
    ],
)
def test_a_sign_that_is_there_is_an_emergency(sign: str, sentence: str) -> None:
    assert category(sentence.format(sign, sign)) is not None


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("血氧89", "breathing"),
        ("血氧只有八十九", "breathing"),
        ("血氧89.5%", "breathing"),
        ("血氧90", None),
        ("血氧九十八", None),
        ("血氧289", None),
        ("血压70/40", "consciousness"),
        ("血压120/65", None),
        ("血压60年没量过", None),
        ("心率一百五", "heart"),
        ("心率149", None),
    ],
)
def test_measured_values_count_by_their_number(question: str, expected: str | None) -> None:
    assert category(question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("我！不！想！活！了！", "self_harm"),
        ("我。不。想。活。了", "self_harm"),
        ("我不想\n活了", "self_harm"),
        ("我不\n想活\n了", "self_harm"),
        ("喝了农\n药", "poisoning"),
        ("自\u3164杀", "self_harm"),
        ("想自\u115f杀", "self_harm"),
        ("想自\u1160杀", "self_harm"),
        ("想自\uffa0杀", "self_harm"),
        ("想自ー杀", "self_harm"),
        ("想自ˉ杀", "self_harm"),
        ("想自<br>杀", "self_harm"),
        ("想自&nbsp;杀", "self_harm"),
        ("想&#33258;&#26432;", "self_harm"),
        ("想自<b>杀</b>", "self_harm"),
        ("心 肌 梗 塞 发 作", "heart"),
        ("心臟病發作", "heart"),
        ("孩孩子子喝喝了了农农药药", "poisoning"),
        ("喘唔到氣", "breathing"),
        ("阿爸中風咗", "stroke"),
        ("我唔想活喇", "self_harm"),
        ("阿媽冇咗呼吸", "consciousness"),
        ("佢飲咗農藥", "poisoning"),
        ("我阿媽暈咗叫唔醒", "consciousness"),
    ],
)
def test_odd_spellings_are_read(question: str, expected: str) -> None:
    assert category(question) == expected


@pytest.mark.parametrize("sign", SIGNS)
def test_how_it_ended_makes_a_sign_one_of_former_times(sign: str) -> None:
    assert category(f"我爸有{sign}住院，已经出院了，恢复得不错") is None
    assert category(f"我爸有{sign}住院，已经出院了。今天又开始{sign}") is not None


def test_notices_have_no_spaces_between_chinese_sentences() -> None:
    for question in ("嘴歪了", "不想活了", "误服农药", "羊水破了"):
        notice = RULES.check_question(question)
        assert notice is not None
        assert "。 " not in notice.advice
        assert ". " in notice.advice_en


@pytest.mark.parametrize(
    "sentence",
    ["去年想自杀", "如果我自杀了呢", "听说他想自杀", "我以前自杀过", "抑郁症的人会自杀吗", "自杀有哪些方法"],
)
def test_self_harm_is_always_answered(sentence: str) -> None:
    assert category(sentence) == "self_harm"


@pytest.mark.parametrize(
    "spell",
    [
        " ".join,
        "\u200b".join,
        "😷".join,
        "*".join,
        "　".join,
        lambda text: text.replace("，", ", "),
        lambda text: f"  {text}\n\n",
    ],
)
def test_spelling_hides_nothing(spell: object) -> None:
    texts = [case["text"] for case in CASES if case["category"] and not any(c.isascii() for c in case["text"])][::12]
    assert len(texts) > 20
    assert [text for text in texts if category(spell(text)) is None] == []  # type: ignore[operator]


def test_the_notice_says_what_to_do_in_two_languages() -> None:
    notice = RULES.check_question("胸 痛，出了一身冷汗")
    assert isinstance(notice, SafetyNotice)
    assert notice.matched == ("胸痛", "出了一身冷汗")
    assert "120" in notice.title + notice.advice
    assert "120" in notice.advice_en
    assert notice.version == RULES.version == "2026-11-20"


def test_self_harm_comes_with_the_help_line() -> None:
    notice = RULES.check_question("活不下去了")
    assert notice is not None
    assert "12356" in notice.advice
    assert "12356" in notice.advice_en


def test_the_gravest_of_several_is_answered() -> None:
    # What is to be done at once about a suicide attempt goes before the poisoning that it is as well.
    notice = RULES.check_question("喝了农药，不想活了，现在肚子剧痛")
    assert notice is not None
    assert notice.rule == "suicide_attempt"


def test_categories_are_in_the_files_order() -> None:
    assert RULES.categories[0] == "self_harm"
    assert len(set(RULES.categories)) == len(RULES.categories)


@pytest.mark.parametrize("piece", ["没有胸痛、", "吃了药", "和", "一", "没有"])
def test_long_texts_are_read_to_their_end(piece: str) -> None:
    # A pattern that tries again and again would not come to an end here.
    assert category(f"{(piece * 10_000)[:10_000]}。我突然喘不上气") == "breathing"


@pytest.mark.parametrize("text", ["", " ", "。，、", "\x00\ud800", "😀" * 50, "١٢٣", "?" * 5000])
def test_odd_texts_are_no_emergency(text: str) -> None:
    assert category(text) is None
