"""The demo, asked by a client over HTTP."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import app
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from wenzhen.answering.answerer import Answerer
from wenzhen.answering.decoding import DECODINGS


@pytest.fixture(scope="module")
def answerer(model_folder: Path) -> Answerer:
    return Answerer(model_folder)


@pytest.fixture(scope="module")
def client(answerer: Answerer) -> Iterator[Client]:
    demo = app.build_demo(answerer)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **app.LAUNCH)
    yield Client(url, verbose=False)
    demo.close()


def test_answer_is_streamed_character_by_character(client: Client, answerer: Answerer) -> None:
    job = client.submit(app.EXAMPLES[0], "greedy", api_name="/answer")
    answer = job.result(timeout=60)
    assert answer == answerer.answer(app.EXAMPLES[0], DECODINGS["greedy"]).text
    parts = job.outputs()
    assert len(parts) > 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(parts))


@pytest.mark.parametrize("decoding", ["beam", "sampling"])
def test_other_decodings_answer_too(client: Client, decoding: str) -> None:
    assert client.predict(app.EXAMPLES[3], decoding, api_name="/answer")


@pytest.mark.parametrize(("question", "message"), [("  ", "empty"), ("痛" * 10_000, "10,000 characters")])
def test_bad_questions_are_explained(client: Client, question: str, message: str) -> None:
    with pytest.raises(AppError, match=message):
        client.predict(question, "greedy", api_name="/answer")


def test_page_says_that_a_machine_wrote_the_answer(client: Client) -> None:
    texts = [component["props"].get("value") for component in client.config["components"]]
    assert app.WARNING in texts
    assert "机器生成" in app.WARNING
    assert len(app.EXAMPLES) == 6


def test_missing_model_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wenzhen.errors import run

    assert run(app.main, ["--model", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.startswith("error: no model folder")
