"""A service that answers over HTTP, with as many replicas on as many machines as wanted, by Ray Serve.

wenzhen serve outputs/quickstart
serve run wenzhen.answering.cluster.service:build model=outputs/quickstart replicas=2

`POST /answer` takes `{"question": …, "decoding": …}`, the decoding if wanted, and returns the answer as JSON;
`POST /stream` returns it as it grows, a line of JSON each time. What cannot be answered gets status 400 with an
`error`, and whoever comes when too many wait, 503.
"""

import json
import logging
import os
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import ray
from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from wenzhen.answering.answer import Answer
from wenzhen.answering.answer_files import json_line
from wenzhen.answering.answerer import MAX_BEAMS, Answerer
from wenzhen.answering.cluster import reason
from wenzhen.answering.decoding import Decoding, decoding_named
from wenzhen.errors import RunError, UsageError

# Of a request, in bytes: more than any model reads.
LARGEST_BODY = 2**16
# Of the application, beside others of the cluster.
NAME = "wenzhen"
# Nothing of a request is written down.
LOGGING = {"enable_access_log": False, "log_level": "WARNING"}


Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """How a model is served.

    Attributes:
        model: its folder, the same on every machine.
        replicas: processes with the model loaded, each with a core.
        gpus: for each replica; a part of one stands for one that several share.
        ongoing: requests that a replica answers at a time.
        queued: requests that wait, for each place where they come in; 503 is what others get.
        max_beams: that a request may ask for; the model's own decoding may have more.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    replicas: Count = 1
    gpus: Annotated[float, Field(ge=0)] = 0
    ongoing: Count = 4
    queued: Count = 32
    max_beams: Count = MAX_BEAMS


def build(settings: Settings) -> serve.Application:
    """Return the application of a model, as `serve.run` and the command `serve run` take it."""
    deployment = serve.deployment(
        Replica,
        num_replicas=settings.replicas,
        max_ongoing_requests=settings.ongoing,
        max_queued_requests=settings.queued,
        ray_actor_options={"num_cpus": 1, "num_gpus": settings.gpus},
        logging_config=LOGGING,
    )
    return deployment.bind(os.path.abspath(settings.model), settings.max_beams)


@contextmanager
def serving(settings: Settings, host: str, port: int) -> Iterator[str]:
    """Serve a model while the block runs, and yield the address.

    Raises:
        UsageError: the folder holds no model, or the cluster has too few cores.
        RunError: Ray cannot serve it, as where the port is taken.
    """
    # What is wrong with the folder is best said before others look at it.
    Answerer(Path(settings.model))
    cores = int(ray.cluster_resources()["CPU"])
    if settings.replicas > cores:
        raise UsageError(f"{settings.replicas} replicas need as many cores; the cluster has {cores}: ask for fewer")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    try:
        serve.start("EveryNode", {"host": host, "port": port}, logging_config=LOGGING)
        serve.run(build(settings), name=NAME)
        yield f"http://{host}:{port}"
    except RuntimeError as error:
        raise RunError(f"the model cannot be served: {reason(error)}") from error
    finally:
        serve.delete(NAME)


class Replica:
    """A process of the service, with a model.

    Args:
        folder: of the model.
        max_beams: that a request may ask for.
    """

    def __init__(self, folder: str, max_beams: int) -> None:
        self.answerer = Answerer(Path(folder))
        self.max_beams = max_beams
        # What is made at the first question is not made by several threads at a time.
        self.answerer.answer("你好")

    async def __call__(self, request: Request) -> Response:
        if (request.method, request.url.path) not in {("POST", "/answer"), ("POST", "/stream")}:
            return JSONResponse({"error": "ask by POST /answer or POST /stream"}, status_code=404)
        try:
            question, decoding = read_request(await body_of(request))
            if decoding and decoding.num_beams > self.max_beams:
                raise UsageError(f"num_beams must be at most {self.max_beams} here, got {decoding.num_beams}")
            if request.url.path == "/answer":
                answer = await run_in_threadpool(self.answerer.answer, question, decoding)
                return Response(json_line(answer), media_type="application/json")
            stream = self.answerer.stream(question, decoding)
            # Before anything is sent, so that a refusal has its status.
            first = await run_in_threadpool(next, stream)
        except UsageError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return StreamingResponse(lines_of(first, stream), media_type="application/x-ndjson")


async def body_of(request: Request) -> bytes:
    """Return what a request brings.

    Raises:
        UsageError: it is too much.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise UsageError(f"the request has more than {LARGEST_BODY:,} bytes")
    return body


def read_request(body: bytes) -> tuple[str, Decoding | None]:
    """Read a question, and how it is to be answered.

    Raises:
        UsageError: the request is none.
    """
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("question"), str):
        raise UsageError('the request must be an object with a question, as {"question": "咳嗽怎么办？"}')
    if unknown := content.keys() - {"question", "decoding"}:
        raise UsageError(f"the request has {min(unknown)}; there are: question, decoding")
    decoding = content.get("decoding")
    if not isinstance(decoding, str | None):
        raise UsageError("decoding must be a text, as greedy or beam:num_beams=8")
    return content["question"], decoding_named(decoding)


async def lines_of(first: Answer, rest: Generator[Answer, None, None]) -> AsyncIterator[bytes]:
    """Yield an answer as it grows; who leaves early stops the writing."""
    try:
        yield json_line(first)
        while answer := await run_in_threadpool(next, rest, None):
            yield json_line(answer)
    finally:
        # It cannot be closed where it is at work; it is then when it has done so, for nobody holds it any more.
        with suppress(ValueError):
            rest.close()
