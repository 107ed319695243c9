"""The demo's page in a real browser, on a desk and on a telephone."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from demo.furnished import EMERGENCY, UNCOVERED, SlowWriting
from demo.waiting import wait_until
from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
QUESTION = "痔疮有什么症状？"
DESK, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def desk(browser: Browser, url: str) -> Iterator[Page]:
    yield from opened(browser, url, DESK)


@pytest.fixture(scope="module")
def phone(browser: Browser, url: str) -> Iterator[Page]:
    yield from opened(browser, url, PHONE)


def opened(browser: Browser, url: str, size: tuple[int, int]) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    strangers: list[str] = []
    page.on("request", lambda request: strangers.append(request.url) if not known(request.url, url) else None)
    page.goto(url)
    yield page
    # Nothing is fetched from anywhere else: no fonts, no statistics, no picture that an answer names.
    assert not strangers
    # Nothing that anybody wrote was executed.
    assert page.title() == texts.TITLE
    page.close()


def known(address: str, url: str) -> bool:
    return address.startswith((url, "data:", "blob:"))


def ask(page: Page, question: str) -> None:
    show(page, "ask")
    box = page.get_by_label(texts.QUESTION).first
    box.fill(question)
    box.press("Shift+Enter")


def show(page: Page, tab: str) -> None:
    page.get_by_role("tab", name=texts.TABS[tab]).click()


def answer_of(page: Page) -> Any:
    return page.locator(".answer textarea").first


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_answer_stands_with_its_evidence_and_its_warning(
    size: str, request: pytest.FixtureRequest, answerer: Answerer
) -> None:
    page: Page = request.getfixturevalue(size)
    ask(page, f"{QUESTION}龘")
    expect(answer_of(page)).to_have_value(answerer.answer(f"{QUESTION}龘").text)
    expect(page.locator(".facts")).to_contain_text("相似度 0.80")
    expect(page.locator(".facts")).to_contain_text("外科（75%）")
    expect(page.locator(".facts")).to_contain_text("龘")
    expect(page.get_by_text(texts.WARNING[0]).first).to_be_visible()
    evidence = page.locator(".evidence details")
    expect(evidence).to_have_count(3)
    expect(evidence.first).to_contain_text("<script>document.title='taken'</script>")
    assert page.locator(".evidence img, .evidence a, .evidence script").count() == 0


def test_emergency_stands_in_the_answers_place(phone: Page) -> None:
    ask(phone, EMERGENCY)
    expect(phone.get_by_role("alert").get_by_text("可能是心脏急症")).to_be_visible()
    expect(phone.get_by_role("alert")).to_contain_text("Call 120 now.")
    expect(answer_of(phone)).to_be_hidden()


def test_question_that_is_not_covered_gets_no_answer(desk: Page) -> None:
    ask(desk, f"{UNCOVERED}怎么买？")
    expect(desk.get_by_text("没有与这个问题相近的问诊")).to_be_visible()
    expect(desk.get_by_text("并不相近")).to_be_visible()
    expect(answer_of(desk)).to_be_hidden()


@pytest.mark.parametrize(("question", "message"), [("   ", "问题是空的"), ("痛" * 10_000, "最多读 95 个")])
def test_bad_questions_are_explained_in_the_answers_place(desk: Page, question: str, message: str) -> None:
    ask(desk, question)
    expect(desk.get_by_role("status").get_by_text(message)).to_be_visible()
    expect(desk.locator(".evidence")).to_have_count(0)


def test_controls_are_there_only_where_they_apply(desk: Page) -> None:
    show(desk, "ask")
    desk.get_by_role("button", name=texts.DECODING).click()
    beams, temperature = (desk.get_by_label(texts.SETTINGS[name][0]).first for name in ("num_beams", "temperature"))
    desk.get_by_label(texts.DECODINGS["beam"]).first.check()
    expect(beams).to_be_visible()
    expect(temperature).to_be_hidden()
    desk.get_by_label(texts.DECODINGS["sampling"]).first.check()
    expect(temperature).to_be_visible()
    expect(beams).to_be_hidden()
    ask(desk, QUESTION)
    expect(desk.locator(".facts")).to_contain_text("sampling, temperature 0.7, top-p 0.9")
    desk.get_by_label(texts.DECODINGS[texts.OWN]).first.check()


def test_attention_of_the_answer_is_drawn(desk: Page, demo: Any) -> None:
    show(desk, "attention")
    ask(desk, QUESTION)
    expect(desk.locator(".evidence")).to_be_visible()
    show(desk, "attention")
    picture = desk.locator(".picture img")
    expect(picture).to_be_visible(timeout=20_000)
    assert picture.evaluate("image => image.naturalWidth") > 100
    mean = picture.get_attribute("src")
    # As it does when many visitors have come since.
    demo.app.state_holder.session_data.clear()
    desk.get_by_label(texts.HEAD).click()
    desk.get_by_role("option", name=texts.HEAD_NAME.format(layer=2, head=3)).click()
    expect(picture).not_to_have_attribute("src", mean)


def test_two_ways_to_write_stand_side_by_side(desk: Page, answerer: Answerer) -> None:
    show(desk, "compare")
    desk.get_by_label(texts.QUESTION).last.fill(QUESTION)
    desk.get_by_role("button", name=texts.ASK).last.click()
    left = desk.locator(".answer textarea").nth(1)
    expect(left).to_have_value(answerer.answer(QUESTION).text)
    tab = desk.get_by_role("tabpanel").filter(has=left)
    expect(tab.locator(".facts").last).to_contain_text("4 beams, α 0.75")


def test_example_fills_the_box(phone: Page) -> None:
    show(phone, "ask")
    (example, *_) = chain.from_iterable(texts.EXAMPLES.values())
    phone.get_by_text(f"｜{example}").click()
    expect(phone.get_by_label(texts.QUESTION).first).to_have_value(example)


def test_page_is_no_wider_than_a_telephone(phone: Page) -> None:
    for tab in texts.TABS:
        show(phone, tab)
        assert phone.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_answer_grows_until_it_is_stopped(desk: Page, answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowWriting()
    monkeypatch.setattr(answerer.engine, "stream", slow.stream)
    ask(desk, QUESTION)
    for length in (1, 20):
        expect(answer_of(desk)).to_have_value(re.compile(f"^字{{{length},}}$"))
    desk.get_by_role("button", name=texts.STOP).first.click()
    wait_until(lambda: slow.listeners == 0)


def test_reload_in_mid_answer_frees_the_model(
    browser: Browser, url: str, answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowWriting()
    monkeypatch.setattr(answerer.engine, "stream", slow.stream)
    page = browser.new_page()
    page.goto(url)
    ask(page, QUESTION)
    wait_until(lambda: slow.listeners == 1)
    page.reload()
    wait_until(lambda: slow.listeners == 0)
    page.close()


def test_full_queue_is_told(desk: Page, demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo._queue, "max_size", 0)
    ask(desk, QUESTION)
    expect(desk.get_by_text("排队的人太多").first).to_be_visible()
