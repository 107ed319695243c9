"""Rule files: the project's own, a hospital's, and wrong ones."""

from pathlib import Path

import pytest

from wenzhen.answering.safety import SafetyRules, rules_file
from wenzhen.answering.safety.context import CUES
from wenzhen.errors import UsageError

CONTEXT = "\n".join(f"  {name}: [没有这样的词]" for name in CUES if name != "denied") + "\n  denied: [没有]"
OWN = f"""
version: 本院第三版
notices:
  call: {{title: 请打 120, advice: 请打 120, advice_en: Call 120}}
words:
  腿: [大腿, 小腿, <脚>]
  脚: [脚, 脚踝]
  断: [断了, 骨折]
context:
{CONTEXT}
questions:
  - id: leg
    category: leg
    notice: call
    patterns: [<腿>..<断>, <脚> + 出血]
    unless: [<此>险, 狗]
    within: 5
  - {{id: crisis, category: self_harm, notice: call, patterns: [不想活]}}
answers:
  - id: pills
    action: withhold
    text: （略）
    patterns: [<数>片]
"""
# Each list holds the one before twice, or once.
DOUBLING = "  w0: [脚]\n" + "".join(f"  w{i}: [<w{i - 1}>甲, <w{i - 1}>乙]\n" for i in range(1, 31))
NESTED = "  w0: [脚]\n" + "".join(f"  w{i}: [<w{i - 1}>]\n" for i in range(1, 31))


def write(folder: Path, text: str) -> Path:
    file = folder / "rules.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_hospital_brings_its_own(tmp_path: Path) -> None:
    rules = SafetyRules(write(tmp_path, OWN))
    assert rules.version == "本院第三版"
    assert rules.categories == ("leg", "self_harm")
    expected = {
        "我小腿摔断了": True,
        "脚踝骨折": True,
        "脚踝都给骨折": True,
        "脚踝，骨折": False,  # no gap goes beyond a comma
        "脚踝那里好像是骨折": False,  # nor beyond four characters
        "出血，在脚上": True,
        "出血很多很多很多，在脚上": False,  # not within five characters
        "没有脚踝骨折": False,
        "狗的脚踝骨折": False,
        "狗跑了。脚踝骨折": True,  # what excuses stands in the same sentence
        "脚踝骨折险": False,
        "胸痛": False,
    }
    assert {text: rules.check_question(text) is not None for text in expected} == expected
    assert rules.check_answer("一次2片，3天。").text == "一次（略），3天。"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 本院第三版\n", "", "the file lacks version"),
        ("version: 本院第三版", "version: 3", "version must be a date or a text, got 3"),
        ("    unless:", "    unles:", "questions, rule 1: unknown key unles; did you mean unless?"),
        ("notice: call", "notice: cal", "rule leg: no notice 'cal'; the notices are: call"),
        ("<腿>..<断>", "<腿>..<折>", "rule leg: '<腿>..<折>' names <折>, which is no list under `words`"),
        ("<腿>..<断>", "<腿>....<断>", "gaps are .. and ..."),
        ("<腿>..<断>", "..<断>", "begins or ends with a gap"),
        ("<腿>..<断>", "<腿", "names stand in < >"),
        ("<腿>..<断>", "<腿>..<数9-5>", "<数9-5> is no range"),
        ("<腿>..<断>", "<腿>..<数1-1000>", "<数1-1000> is no range"),
        ("<腿>..<断>", "！！", "holds nothing that can be looked for"),
        ("<腿>..<断>", "120", "every entry must be a text, got 120; put it in quotes"),
        ("[脚, 脚踝]", "[脚, <腿>]", "the list 腿 under `words` holds itself"),
        ("[脚, 脚踝]", "[]", "words, 脚 must be a list of texts"),
        ("within: 5", "within: -1", "within must be a whole number of characters to 1000, got -1"),
        ("within: 5", "despite: [passed]", "despite may hold denied, past, asked, supposed, got 'passed'"),
        ("action: withhold", "action: hide", "action must be show or mark or withhold, got 'hide'"),
        ("    text: （略）\n", "", "rule pills: text goes with mark and withhold"),
        ("  denied: [没有]", "", "context lacks denied"),
        ("advice_en: Call 120", "advice_en: ''", "notice call: advice_en must be a text"),
        ("  脚: [", "  腿: [", "腿 stands twice"),
        ("questions:", "questions: [", "is no YAML in UTF-8"),
        ("version: 本院第三版", "version: 2026-13-45", "month must be in 1..12"),
        ("self_harm", "harm", "no rule under `questions` has the category self_harm"),
        ("[脚, 脚踝]", "&feet [脚, 脚踝]", "line 7 has an anchor or an alias"),
        ("[脚, 脚踝]", "[" * 200_000, "line 7 is more than 10 lists and blocks deep"),
        ("  脚: [", DOUBLING + "  脚: [<w30>, ", "is too long with all lists in it"),
        ("  脚: [", NESTED + "  脚: [<w30>, ", "is too long with all lists in it"),
        ("[脚, 脚踝]", f"[{'脚' * 101}]", "is longer than 100 characters"),
        ("[脚, 脚踝]", f"[{'脚, ' * 400_000}]", "more than 1,000,000 bytes"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    file = write(tmp_path, OWN.replace(old, new))
    with pytest.raises(UsageError) as refusal:
        SafetyRules(file)
    assert message in str(refusal.value)
    assert str(file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    rule = OWN[OWN.index("  - id: leg") : OWN.index("  - {id: crisis")]
    with pytest.raises(UsageError, match="two rules are called leg"):
        SafetyRules(write(tmp_path, OWN.replace(rule, rule + rule)))


@pytest.mark.parametrize("content", ["", "[]", "just a text"])
def test_what_is_no_rule_file_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="must hold names"):
        SafetyRules(write(tmp_path, content))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        SafetyRules(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        SafetyRules(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("version: é".encode("latin-1"))
    with pytest.raises(UsageError, match="no YAML in UTF-8"):
        SafetyRules(tmp_path / "latin.yaml")


def test_a_model_folder_with_broken_rules_does_not_fall_back_on_ours(tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "safety.yaml").symlink_to("nowhere")
    (tmp_path / "folder" / "safety.yaml").mkdir(parents=True)
    for name in ("link", "folder"):
        with pytest.raises(UsageError, match="cannot be read"):
            SafetyRules(rules_file(tmp_path / name))
    assert SafetyRules(rules_file(tmp_path)).version == SafetyRules().version
