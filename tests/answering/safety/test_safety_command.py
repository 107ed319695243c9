"""`wenzhen safety`, and the figures of a list of cases."""

import json
from pathlib import Path

import pytest

from helpers import ROOT
from wenzhen.cli import main
from wenzhen.errors import run

CASES = """
- {text: 胸痛出冷汗, category: heart}
- {text: 嘴歪了, category: heart}
- {text: 肚子有点饿, category: abdomen}
- {text: 流鼻涕, category: null}
- {text: 我不想活了, category: none}
- {text: 咳嗽, category: 无}
"""


def test_a_question_is_told_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["safety", "嘴歪了"]) == 0
    output = capsys.readouterr().out
    assert "rule: stroke  category: stroke  matched: 嘴歪" in output
    assert "120" in output
    assert main(["safety", "嘴歪了", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["matched"] == ["嘴歪"]


def test_a_question_without_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["safety", "流鼻涕"]) == 0
    assert capsys.readouterr().out == "no rule\n"
    assert main(["safety", "流鼻涕", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is None


def test_cases_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES, encoding="utf-8")
    assert main(["safety", "--file", str(file), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    # Two of three emergencies are recognised, one of them as what it is, and one question is taken for one wrongly.
    assert (scores["cases"], scores["emergencies"]) == (6, 3)
    assert scores["recall"] == pytest.approx(2 / 3)
    assert scores["precision"] == pytest.approx(2 / 3)
    assert scores["right_category"] == pytest.approx(1 / 3)
    assert scores["categories"] == {
        "heart": {"cases": 2, "recognised": 2, "as_this": 1},
        "abdomen": {"cases": 1, "recognised": 0, "as_this": 0},
    }
    assert scores["missed"] == [{"text": "肚子有点饿", "category": "abdomen"}]
    assert [case["text"] for case in scores["false_alarms"]] == ["我不想活了"]
    assert main(["safety", "--file", str(file)]) == 0
    output = capsys.readouterr().out
    assert "recall 66.7%  precision 66.7%  right category 33.3%" in output
    assert "missed: 肚子有点饿 (abdomen)" in output


def test_shares_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("- {text: 流鼻涕, category: null}", encoding="utf-8")
    assert main(["safety", "--file", str(file)]) == 0
    assert "recall none  precision none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either QUESTION or --file"),
        (["胸痛", "--file", "cases.yaml"], "give either QUESTION or --file"),
        (["--file", "none.yaml"], "no file none.yaml can be read"),
        (["胸痛", "--rules", "none.yaml"], "the rule file none.yaml cannot be read"),
    ],
)
def test_wrong_requests(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(main, ["safety", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "text: 胸痛", "- {text: 胸痛}", "- {text: 3, category: null}", "- ["])
def test_what_is_no_list_of_cases(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(content, encoding="utf-8")
    assert run(main, ["safety", "--file", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_paraphrases_are_recognised_as_often_as_the_readme_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["safety", "--file", str(Path(__file__).with_name("paraphrases.yaml"))]) == 0
    told = "recall 82.9%  precision 91.3%"
    assert told in capsys.readouterr().out
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")
