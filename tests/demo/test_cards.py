"""What the page shows of an answer and of a model, as HTML."""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from demo.furnished import EMERGENCY, HOSTILE, UNCOVERED, furnished
from wenzhen.answering.answer import NOT_COVERED, Confidence
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.safety import Finding
from wenzhen.corpus.schema import DEPARTMENTS
from wenzhen.demo import texts
from wenzhen.demo.about import about_model
from wenzhen.demo.attention import AttentionPainter
from wenzhen.demo.cards import dial, evidence_panel, facts, head_card, message
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.table import MEANINGS
from wenzhen.models import DATASET_REPORT, METRICS_FILE


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_that_anybody_wrote_becomes_markup(answerer: Answerer) -> None:
    answer = next(answerer.stream(f"痔疮{HOSTILE[:40]}"))
    notice = answerer.rules.check_question(EMERGENCY)
    assert notice
    hostile = replace(
        answer, unknown=HOSTILE, caveat=HOSTILE, safety=replace(notice, advice=HOSTILE, matched=(HOSTILE,))
    )
    shown = [
        evidence_panel(answer),
        head_card(hostile),
        head_card(replace(hostile, safety=None)),
        facts(answerer, replace(hostile, safety=None)),
        message((HOSTILE, HOSTILE)),
    ]
    for html in shown:
        page = Reader(html)
        assert HOSTILE in page.text
        assert not page.tags & {"script", "img"}
        # The numbers to call are links, and nothing else is.
        assert html.count("<a") == html.count('<a href="tel:')
        assert not {name for name in page.attributes if name.startswith("on")}


def test_emergency_has_its_advice_in_both_languages_and_nothing_else(answerer: Answerer) -> None:
    answer = answerer.answer(EMERGENCY)
    page = Reader(head_card(answer))
    assert "请立即拨打120。" in page.text and "Call 120 now." in page.text
    assert head_card(answer).count('<a href="tel:120">120</a>') == 2
    assert dial("<b>1200") == "&lt;b&gt;1200"
    assert "相似度" not in Reader(facts(answerer, answer)).text
    assert not evidence_panel(answer).strip()


def test_question_that_is_not_covered_has_no_department(answerer: Answerer) -> None:
    answer = answerer.answer(UNCOVERED)
    assert dial(NOT_COVERED) in head_card(answer)
    assert "没有相近的问诊：相似度 0.10" in Reader(facts(answerer, answer)).text
    assert "外科（" not in facts(answerer, answer)
    assert "并不相近" in evidence_panel(answer)


def test_confidence_is_told_in_words_and_numbers(answerer: Answerer) -> None:
    answer = replace(answerer.answer("痔疮"), text="好", caveat="", ended=False)
    for probability, words in ((0.5, ""), (0.499, "模型没有把握：")):
        told = Reader(facts(answerer, replace(answer, confidence=Confidence(0.8, probability)))).text
        assert f"{words}每个字的平均概率 0.50" in told
        assert ("没有把握：" in told) == bool(words)
        assert "写到长度上限为止" in told
    doses = replace(answer, findings=(Finding("dose", "0.5克", "withhold"),))
    assert "1 处剂量" in facts(answerer, doses)


def test_model_alone_is_shown_gracefully(model_folder: Path) -> None:
    plain = furnished(model_folder)
    plain.evidence = plain.departments = None
    answer = plain.answer("痔疮")
    told = Reader(facts(plain, answer)).text
    assert "科室" not in told and "相似度" not in told
    assert not evidence_panel(answer).strip()
    about = Reader(about_model(plain)).text
    assert "还没有测过" in about and "没有问诊索引" in about


def test_about_shows_metrics_with_meanings_intervals_and_floors(model_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "measured")
    metrics = {
        "dataset": "/home/somebody/set",
        "split": "test",
        "questions": 1234,
        "decoding": {"num_beams": 1, "do_sample": False},
        "bleu4_char": 12.345,
        "intervals": {"bleu4_char": [11.0, 13.0]},
        "floors": {"random": {"bleu4_char": 4.5, "differences": {}}},
    }
    (folder / METRICS_FILE).write_text(json.dumps(metrics), encoding="utf-8")
    report = {
        "read": 2000,
        "kept": 1900,
        "splits": {"train": 1000, "validation": 100, "test": 800},
        "departments": {"<b>内科</b>": 1900},
    }
    (folder / DATASET_REPORT).write_text(json.dumps(report), encoding="utf-8")
    page = Reader(about_model(furnished(folder)))
    for part in ("12.35", "11.00–13.00", "4.5000", "随机一条", "1,234", "1,900", "<b>内科</b>", "BLEU-4，按字"):
        assert part in page.text
    assert "somebody" not in page.text


def test_damaged_records_are_told_on_the_page(model_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "damaged")
    (folder / METRICS_FILE).write_text("{", encoding="utf-8")
    (folder / DATASET_REPORT).write_text('{"read": "many"}', encoding="utf-8")
    told = Reader(about_model(furnished(folder))).text
    assert "metrics.json" in told and "没有数据集的报告" in told


def test_every_metric_floor_and_department_has_its_words() -> None:
    assert set(texts.MEANINGS) == set(MEANINGS)
    assert set(texts.FLOORS) == set(FLOORS)
    assert set(texts.EXAMPLES) - {"急症 emergency"} == set(DEPARTMENTS)


def test_attention_is_drawn_for_each_head(model_folder: Path) -> None:
    painter = AttentionPainter(model_folder)
    mean = painter.draw("痔疮怎么办？", "多喝水$x$")
    # Two layers of four heads.
    assert [value for _, value in mean.heads] == ["", *(f"{layer},{head}" for layer in (0, 1) for head in range(4))]
    assert Reader(mean.html).tags == {"div", "img"}
    one = painter.draw("痔疮怎么办？", "多喝水$x$", "1,3")
    assert one.html != mean.html
    assert painter.draw("痔疮怎么办？", "多喝水$x$", "99,99").html == mean.html


@pytest.mark.parametrize(
    ("question", "text", "message"),
    [("", "", "先在"), ("痔疮", "", "先在"), ("痛" * 5000, "好", "at most"), ("痔疮", "好" * 5000, "只画出前")],
)
def test_attention_is_bounded(model_folder: Path, question: str, text: str, message: str) -> None:
    assert message in AttentionPainter(model_folder).draw(question, text).html
