"""What a request's body may hold, and that nothing of what visitors wrote is ever printed."""

import json
import logging
from typing import Any

import pytest
import requests

from wenzhen.answering.answerer import Answerer
from wenzhen.demo import texts
from wenzhen.demo.controls import APPLICABLE, RANGES

MARKER = "SECRETXYZ"
QUESTION = f"痔疮有什么症状？{MARKER}"
# Stands for the number of the function.
ANSWER = object()
# The sliders' first values.
SLIDERS = [2, 0.75, 0.7, 0.9, 1.0, 0]


@pytest.fixture(autouse=True)
def nothing_is_printed(url: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Any:
    capfd.readouterr()
    yield
    printed = "".join((*capfd.readouterr(), caplog.text))
    assert MARKER not in printed
    assert "Traceback" not in printed


def post(url: str, action: str, body: Any, **headers: str) -> requests.Response:
    """Send a body, one that is no bytes as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    return requests.post(f"{url}/gradio_api/{action}", data=data, headers=headers, timeout=20)


def number_of(demo: Any, name: str) -> int:
    return next(int(number) for number, function in demo.fns.items() if function.api_name == name)


@pytest.mark.parametrize("body", [{"data": [QUESTION]}, {"data": [QUESTION, "own"], "session_hash": "a-session"}])
def test_decoding_may_be_left_out(url: str, answerer: Answerer, body: dict[str, Any]) -> None:
    event = post(url, "call/answer", body).json()["event_id"]
    told = requests.get(f"{url}/gradio_api/call/answer/{event}", timeout=20)
    assert told.status_code == 200
    *_, last = told.content.decode().split("event: complete\ndata: ")
    assert json.loads(last) == [answerer.answer(QUESTION).text]
    # It has been read.
    assert requests.get(f"{url}/gradio_api/call/answer/{event}", timeout=20).status_code == 404


@pytest.mark.parametrize(
    "path", ["call/answer/xyz", "call/ask/" + 32 * "0", "queue/data?session_hash=xyz", "queue/data"]
)
def test_answer_that_is_not_under_way_is_not_found(url: str, path: str) -> None:
    told = requests.get(f"{url}/gradio_api/{path}", timeout=20)
    assert (told.status_code, told.json()) == (404, {"detail": texts.NO_SUCH_ANSWER})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "2 values, got 0"),
        ([QUESTION, "own", MARKER], "2 values, got 3"),
        (QUESTION, "data is missing or of the wrong type"),
        ({"question": QUESTION}, "data is missing or of the wrong type"),
        (None, "data is missing or of the wrong type"),
        ([[QUESTION], "own"], "must be a text"),
        ([10**400, "own"], "must be a text"),
        ([QUESTION, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}], "must be a text"),
        ([{"path": f"/etc/{MARKER}", "meta": {"_type": "gradio.FileData"}}, "own"], "must be a text"),
    ],
)
def test_values_that_a_function_does_not_take_are_refused_in_words(
    url: str, demo: Any, data: Any, message: str
) -> None:
    body = {"data": data, "fn_index": number_of(demo, "answer"), "session_hash": "abc"}
    for action in ("call/answer", "queue/join"):
        refused = post(url, action, body)
        assert refused.status_code == 422
        assert message in " ".join(problem["message"] for problem in refused.json()["detail"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        f'{{"data": ["{QUESTION}"'.encode(),
        f'["{QUESTION}"]'.encode(),
        b"null",
        b'{"data": ["' + MARKER.encode() + b'\xff"]}',
        b'{"data": ["\\ud800 ' + MARKER.encode() + b'"]}',
        b'{"data": [NaN]}',
        b'{"data": [1e999]}',
        b'{"data": [' + 5000 * b"9" + b"]}",
        b'{"data": ' + 100_000 * b"[",
    ],
)
def test_what_is_no_json_is_refused_in_words(url: str, body: bytes) -> None:
    refused = post(url, "call/answer", body)
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["message"] == texts.NO_OBJECT


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""]
)
def test_body_must_be_called_json(url: str, content_type: str) -> None:
    refused = post(url, "call/answer", {"data": [QUESTION]}, **{"Content-Type": content_type})
    assert (refused.status_code, refused.json()) == (415, {"detail": texts.NO_JSON})
    assert (
        post(url, "call/answer", {"data": []}, **{"Content-Type": "Application/JSON; charset=utf-8"}).status_code
        == 422
    )


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        ("queue/join", {"fn_index": ANSWER}, 422),
        ("queue/join", {"fn_index": ANSWER, "session_hash": 5}, 422),
        ("queue/join", {"fn_index": ANSWER, "session_hash": f"{MARKER}\n"}, 422),
        ("queue/join", {"fn_index": "12", "session_hash": "abc"}, 422),
        ("queue/join", {"fn_index": True, "session_hash": "abc"}, 422),
        ("queue/join", {"fn_index": ANSWER, "session_hash": "abc", "trigger_id": [MARKER]}, 422),
        ("queue/join", {"session_hash": "abc"}, 404),
        ("queue/join", {"fn_index": 9999, "session_hash": "abc"}, 404),
        ("queue/join", {"fn_index": -1, "session_hash": "abc"}, 404),
        ("call/nothing", {}, 404),
        ("call/unnamed", {}, 404),
        ("run/nothing", {}, 404),
        # What is written waits in the queue.
        ("run/answer", {}, 404),
        ("run/predict", {"fn_index": ANSWER}, 404),
        ("api/answer", {}, 404),
        ("call/v2/answer", {"question": QUESTION}, 404),
        ("cancel", {"session_hash": "abc", "fn_index": ANSWER, "event_id": [MARKER]}, 422),
        ("reset", {"event_id": {"a": MARKER}}, 422),
    ],
)
def test_requests_for_what_is_not_there_are_refused(
    url: str, demo: Any, action: str, more: dict[str, Any], status: int
) -> None:
    body = {"data": [QUESTION, "own"], **more}
    if more.get("fn_index") is ANSWER:
        body["fn_index"] = number_of(demo, "answer")
    assert post(url, action, body).status_code == status


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 5),
        (0, [MARKER]),
        (0, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}),
        (1, MARKER),
        (1, None),
        (1, [MARKER]),
        (2, "9e9"),
        (2, None),
        (2, 1e9),
        (2, 10**400),
        (2, True),
        (3, -1),
        (7, [MARKER]),
    ],
)
def test_controls_take_what_they_can_show(url: str, demo: Any, place: int, value: Any) -> None:
    data = [QUESTION, "own", *SLIDERS]
    data[place] = value
    body = {"data": data, "fn_index": number_of(demo, "reply"), "session_hash": "abc"}
    refused = post(url, "queue/join", body)
    assert refused.status_code == 422
    problems = refused.json()["detail"]
    assert [problem["is_valid"] for problem in problems] == [number != place for number in range(8)]
    assert "must be" in problems[place]["message"]


def test_functions_that_need_no_queue_are_checked_too(url: str, demo: Any) -> None:
    def run(name: str, data: list[Any]) -> int:
        return post(url, "run/predict", {"data": data, "fn_index": number_of(demo, name)}).status_code

    assert len(SLIDERS) == len(RANGES)
    assert [run("show", [kind]) for kind in (*APPLICABLE, MARKER)] == [200] * len(APPLICABLE) + [422]
    assert [run("load_example", [number]) for number in (0, 9999, -1, True, MARKER)] == [200] + [422] * 4


def test_what_fails_unforeseen_is_told_by_type_and_place(
    url: str, demo: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"cannot take {MARKER}")

    # In the queue, in a route, and behind it.
    monkeypatch.setattr(demo, "preprocess_data", failing)
    event = post(url, "call/answer", {"data": [QUESTION]}).json()["event_id"]
    told = requests.get(f"{url}/gradio_api/call/answer/{event}", timeout=20).text
    assert told.startswith("event: error") and MARKER not in told
    failed = post(url, "run/predict", {"data": ["greedy"], "fn_index": number_of(demo, "show")})
    assert failed.status_code == 500 and MARKER not in failed.text
    monkeypatch.setattr(demo._queue, "push", failing)
    failed = post(url, "call/answer", {"data": [QUESTION]})
    assert (failed.status_code, failed.json()) == (500, {"detail": " ".join(texts.FAILED)})
    try:
        failing()
    except RuntimeError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved: %s", MARKER)
    assert caplog.text.count(f"RuntimeError at {__file__}:") == 4
