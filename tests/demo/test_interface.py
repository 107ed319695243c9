"""What programs get from the demo, over HTTP."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests
from gradio_client import Client
from gradio_client.exceptions import AppError, ValidationError

from demo.furnished import EMERGENCY, UNCOVERED, SlowWriting
from demo.waiting import wait_until
from wenzhen.answering.answer import NOT_COVERED
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.decoding import DECODINGS
from wenzhen.demo import texts
from wenzhen.demo.page import AT_A_TIME, QUEUE_SIZE

QUESTION = "痔疮有什么症状？"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    yield Client(url, verbose=False)


def test_text_is_streamed_and_equals_the_answerers(client: Client, answerer: Answerer) -> None:
    job = client.submit(QUESTION, "greedy", api_name="/answer")
    assert job.result(timeout=60) == answerer.answer(QUESTION, DECODINGS["greedy"]).text
    # The first value comes before the first word.
    texts = [text for text in job.outputs() if text]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


@pytest.mark.parametrize("question", [QUESTION, f"我{EMERGENCY}", f"{UNCOVERED}怎么买？"])
def test_whole_answer_is_the_answerers(client: Client, answerer: Answerer, question: str) -> None:
    def told(answer: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in answer.items() if key != "seconds"}

    answer = client.predict(question, "beam:num_beams=2", api_name="/ask")
    expected = asdict(answerer.answer(question, BEAMS))
    # JSON has lists for tuples.
    assert told(answer) == told(as_json(expected))


def test_text_of_an_emergency_is_its_notice(client: Client) -> None:
    assert client.predict(EMERGENCY, api_name="/answer") == "可能是心脏急症\n请立即拨打120。"
    assert client.predict(UNCOVERED, api_name="/answer") == NOT_COVERED


@pytest.mark.parametrize(
    ("question", "decoding", "message"),
    [
        ("  ", "own", "问题是空的.*empty"),
        ("痛" * 10_000, "own", "10,000 个字.*at most 95"),
        (QUESTION, "magic", "no decoding magic"),
        (QUESTION, "beam:num_beams=9", "At most 8 beams, got 9"),
        (QUESTION, "beam:num_beams=a", "num_beams must be"),
        (QUESTION, "greedy:num_beams=!!int ''", "num_beams must be"),
        (["a", "list"], "own", "must be a text"),
        (QUESTION, 7, "must be a text"),
        (QUESTION, None, "must be a text"),
    ],
)
def test_what_is_refused_is_explained(client: Client, question: Any, decoding: Any, message: str) -> None:
    with pytest.raises((AppError, ValidationError), match=f"(?s){message}"):
        client.predict(question, decoding, api_name="/answer")


def test_programs_see_two_functions_with_descriptions(client: Client) -> None:
    functions = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(functions) == {"/answer", "/ask"}
    for function in functions.values():
        assert [parameter["parameter_name"] for parameter in function["parameters"]] == ["question", "decoding"]
        assert "similarities" in function["description"] or "text alone" in function["description"]


def test_nothing_of_a_question_is_printed_or_stored(
    client: Client,
    gradio_folder: Path,
    answerer: Answerer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(question: str, decoding: object = None) -> Iterator[str]:
        raise RuntimeError(f"cannot read {question}")

    client.predict("秘密问题", api_name="/answer")
    monkeypatch.setattr(answerer.engine, "stream", failing)
    with pytest.raises(AppError, match="出错了"):
        client.predict("秘密问题", api_name="/answer")
    printed = "".join((*capfd.readouterr(), caplog.text))
    assert "秘密" not in printed
    assert "RuntimeError at " in printed
    assert not [path for path in gradio_folder.rglob("*") if path.is_file()]


def test_visitor_who_leaves_frees_the_model(url: str, answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowWriting()
    monkeypatch.setattr(answerer.engine, "stream", slow.stream)
    sessions = [f"leaving{number}" for number in range(AT_A_TIME)]
    readers = [listening(url, session) for session in sessions]
    wait_until(lambda: slow.listeners == AT_A_TIME)
    # The connection is cut, as by a reload.
    for reader in readers:
        reader.close()
    wait_until(lambda: slow.listeners == 0)


def test_full_queue_turns_visitors_away(url: str, answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowWriting()
    monkeypatch.setattr(answerer.engine, "stream", slow.stream)
    readers = [listening(url, f"busy{number}") for number in range(AT_A_TIME)]
    wait_until(lambda: slow.listeners == AT_A_TIME)
    try:
        answers = [join(url, f"waiting{number}") for number in range(QUEUE_SIZE + 1)]
        assert [answer.status_code for answer in answers] == [200] * QUEUE_SIZE + [429]
        assert answers[-1].json() == {"detail": texts.QUEUE_FULL}
    finally:
        for number in range(QUEUE_SIZE):
            listening_to(url, f"waiting{number}").close()
        for reader in readers:
            reader.close()
    monkeypatch.undo()
    wait_until(lambda: slow.listeners == 0)
    assert Client(url, verbose=False).predict(QUESTION, api_name="/answer")


BEAMS = DECODINGS["beam"].__class__(num_beams=2, length_penalty=DECODINGS["beam"].length_penalty)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def join(url: str, session: str) -> requests.Response:
    functions = requests.get(f"{url}/config", timeout=10).json()["dependencies"]
    (number,) = (function["id"] for function in functions if function["api_name"] == "answer")
    body = {"data": [QUESTION, "own"], "fn_index": number, "session_hash": session}
    return requests.post(f"{url}/gradio_api/queue/join", json=body, timeout=10)


def listening_to(url: str, session: str) -> requests.Response:
    return requests.get(f"{url}/gradio_api/queue/data", params={"session_hash": session}, stream=True, timeout=10)


def listening(url: str, session: str) -> requests.Response:
    assert join(url, session).status_code == 200
    return listening_to(url, session)
