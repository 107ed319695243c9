"""Two machines of a Ray cluster, as far as one machine can be two: they answer as this process does."""

import asyncio
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from small_models import PAIRS
from wenzhen.answering.answer import Answer
from wenzhen.answering.answerer import MAX_BEAMS, Answerer
from wenzhen.answering.batch import answer_file
from wenzhen.answering.chunks import Job
from wenzhen.answering.decoding import DECODINGS
from wenzhen.answering.question_files import Place, QuestionFile
from wenzhen.errors import UsageError

ray = pytest.importorskip("ray", reason="Ray is not installed")
cluster_utils = pytest.importorskip("ray.cluster_utils")

from wenzhen.answering.cluster import connected, service  # noqa: E402
from wenzhen.answering.cluster.data import answer_on_cluster  # noqa: E402

ON_TWO = partial(answer_on_cluster, address="auto", processes=2)


@pytest.fixture(scope="module")
def nodes() -> Iterator[set[str]]:
    """Start two nodes of one core, and return their ids."""
    # The nodes' processes cannot import what stands here.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}, connect=True
    )
    node = cluster.add_node(num_cpus=1)
    yield {cluster.head_node.node_id, node.node_id}
    ray.shutdown()
    cluster.shutdown()


def here() -> str:
    return str(ray.get_runtime_context().get_node_id())


class NodeJob(Job):
    """Gives the model the name of the node that it is on."""

    def start(self) -> Answerer:
        answerer = super().start()
        answerer.name = here()
        return answerer


class NodeReplica(service.Replica):
    """Gives the model the name of the node that it is on."""

    def __init__(self, folder: str, max_beams: int) -> None:
        super().__init__(folder, max_beams)
        self.answerer.name = here()


@pytest.fixture
def source(tmp_path: Path) -> QuestionFile:
    questions = [*PAIRS, "", *reversed(PAIRS), "血压有点高", "孩子发烧一天了"] * 4
    (tmp_path / "questions.txt").write_text("\n".join(questions), encoding="utf-8")
    return QuestionFile(tmp_path / "questions.txt")


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_cluster_answers_a_file_as_one_process_does(
    nodes: set[str], source: QuestionFile, exported_folder: Path, tmp_path: Path
) -> None:
    assert answer_file(Job(exported_folder, batch_size=1), source, tmp_path / "here.jsonl") == 4
    assert answer_file(NodeJob(exported_folder, batch_size=1), source, tmp_path / "there.jsonl", mapper=ON_TWO) == 4
    expected, found = rows_of(tmp_path / "here.jsonl"), rows_of(tmp_path / "there.jsonl")
    assert {row.get("model") for row in found} - {None} == nodes
    for row in [*expected, *found]:
        row |= {"seconds": 0, "model": ""}
    assert found == expected


def test_what_is_wrong_on_a_node_is_said_in_a_line(nodes: set[str], source: QuestionFile, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(UsageError, match=r"model is no model folder: it lacks config\.json"):
        next(answer_on_cluster(Job(tmp_path / "model"), source, Place(), "auto", processes=1))


def test_there_is_no_such_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(UsageError, match="no Ray cluster at nowhere:1"), connected("nowhere:1"):
        pass


@pytest.fixture(scope="module")
def url(nodes: set[str], exported_folder: Path) -> Iterator[str]:
    """Serve the model on both nodes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = service.Settings(model=str(exported_folder), replicas=2, ongoing=1, queued=2, max_beams=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "Replica", NodeReplica)
        with service.serving(settings, "127.0.0.1", port) as address:
            yield address


def post(url: str, content: object) -> tuple[int, str]:
    """Send JSON and return the status and what comes back."""
    request = urllib.request.Request(url, json.dumps(content).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_service_answers_as_the_answerer_does(url: str, exported_folder: Path) -> None:
    answerer = Answerer(exported_folder)
    for question, decoding in [("血压有点高，吃东西要注意什么？", None), ("孩子拉肚子一天了。", "beam")]:
        expected = answerer.answer(question, decoding and DECODINGS[decoding])
        status, body = post(f"{url}/answer", {"question": question, "decoding": decoding})
        assert status == 200
        answer = json.loads(body)
        assert (answer["question"], answer["text"], answer["ended"]) == (question, expected.text, expected.ended)
        assert answer["confidence"]["probability"] == pytest.approx(expected.confidence.probability, abs=1e-6)
        assert (answer["decoding"], answer["notice"]) == (expected.decoding, expected.notice)
        status, body = post(f"{url}/stream", {"question": question, "decoding": decoding})
        parts = [json.loads(line)["text"] for line in body.splitlines()]
        assert (parts[0], parts[-1]) == ("", expected.text)
        assert all(later.startswith(earlier) for earlier, later in pairwise(parts))


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        ("answer", {"question": " "}, 400, "the question is empty"),
        ("stream", {"question": "痛" * 500}, 400, "500 characters; this model reads at most 47"),
        ("answer", {"question": "痛" * 50_000}, 400, "more than 65,536 bytes"),
        ("answer", {"question": "痛", "decoding": "best"}, 400, "no decoding best"),
        (
            "answer",
            {"question": "痛", "decoding": "beam:num_beams=65"},
            400,
            "at most 64 here, got 65",
        ),
        ("stream", {"question": "痛", "decoding": "beam:num_beams=8,do_sample=true"}, 400, "samples without beams"),
        ("stream", {"question": "胸痛", "decoding": "beam:num_beams=8,do_sample=true"}, 400, "samples without beams"),
        ("answer", {"question": "痛", "decoding": "greedy:num_beams=two"}, 400, "num_beams must be a whole number"),
        ("answer", {"question": "痛", "beams": 4}, 400, "the request has beams; there are: question, decoding"),
        ("answer", {"question": 5}, 400, "must be an object with a question"),
        ("answer", ["痛"], 400, "must be an object with a question"),
        ("", {"question": "痛"}, 404, "POST /answer"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(url: str, path: str, content: object, status: int, message: str) -> None:
    code, body = post(f"{url}/{path}", content)
    assert code == status
    assert message in json.loads(body)["error"]


def test_both_nodes_serve_and_who_finds_the_queue_full_is_told(url: str, nodes: set[str]) -> None:
    request = {"question": "血压有点高，吃东西要注意什么？", "decoding": "beam:num_beams=64"}
    with ThreadPoolExecutor(24) as visitors:
        replies = list(visitors.map(post, [f"{url}/answer"] * 48, [request] * 48))
    assert {status for status, _ in replies} == {200, 503}
    assert {json.loads(body)["model"] for status, body in replies if status == 200} == nodes


def test_who_leaves_early_stops_the_writing() -> None:
    closed = []

    def stream() -> Iterator[Answer]:
        try:
            while True:
                yield Answer("痛", text="喝水")
        finally:
            closed.append(True)

    async def leave() -> None:
        async with aclosing(service.lines_of(Answer("痛"), stream())) as lines:
            assert [json.loads(await anext(lines))["text"] for _ in range(2)] == ["", "喝水"]

    asyncio.run(leave())
    assert closed == [True]


def test_beams_are_bounded_where_nobody_says_otherwise() -> None:
    assert service.Settings(model="m").max_beams == MAX_BEAMS == 8


def test_more_replicas_than_cores_are_refused(nodes: set[str], exported_folder: Path) -> None:
    settings = service.Settings(model=str(exported_folder), replicas=3)
    with (
        pytest.raises(UsageError, match="3 replicas need as many cores; the cluster has 2"),
        service.serving(settings, "127.0.0.1", 1),
    ):
        pass


def test_no_question_is_written_down(url: str) -> None:
    post(f"{url}/answer", {"question": "膝盖上长了龘"})
    post(f"{url}/answer", {"question": "膝盖上长了龘" * 100})
    folder = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert not [file for file in files if "长了龘".encode() in file.read_bytes()]
