"""What visitors of the demo wait for when many come at once: the first character, and the whole answer.

Every user asks over HTTP as the page does, reads the answer to its end and asks again, at once or after a pause. What
is measured goes from the sending of a request to the arrival of what it brought, so the server's queue is in it.
"""

import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from wenzhen.demo import texts
from wenzhen.errors import RunError, UsageError

# Of a server that is started here, in seconds.
START_TIMEOUT = 120
# Nobody waits longer for the next sign of life.
ANSWER_TIMEOUT = 120


@dataclass
class Waits:
    """Seconds until the first character and until the end of every answer, and what went wrong how often."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


def benchmark_serving(target: str, users: int, seconds: float, pause: float = 0) -> dict[str, Any]:
    """Let users ask a demo and measure what they wait for.

    Args:
        target: the address of a demo, or a model to serve one of here.
        users: who ask at the same time.
        seconds: for which they go on asking; answers that are on their way then are awaited.
        pause: seconds that a user takes to read an answer, on average, before the next question.

    Returns:
        `users`, `seconds`, `pause`, `answers`, `errors` (how often each), `first_character_ms` and `whole_answer_ms`
        (`median`, `p95`, `max`), and `memory_mb` of a server that was started here (`start`, after one answer, and
        `end`).

    Raises:
        UsageError: no demo answers at the address.
        RunError: the server that was started here ended.
    """
    if target.startswith(("http://", "https://")):
        return measure(target.rstrip("/"), users, seconds, pause, None)
    with served(target) as (url, process):
        return measure(url, users, seconds, pause, process)


def measure(url: str, users: int, seconds: float, pause: float, process: int | None) -> dict[str, Any]:
    """Warm the demo up, load it, and return what [`benchmark_serving`] says."""
    function = function_number(url)
    asyncio.run(visit(url, function, 1, 0, 0))
    start = time.monotonic()
    before = memory_mb(process)
    waits = asyncio.run(visit(url, function, users, seconds, pause))
    return {
        "users": users,
        "seconds": time.monotonic() - start,
        "pause": pause,
        "answers": len(waits.whole),
        "errors": dict(waits.errors),
        "first_character_ms": summary(waits.first),
        "whole_answer_ms": summary(waits.whole),
        "memory_mb": {"start": before, "end": memory_mb(process)},
    }


def function_number(url: str) -> int:
    """Return the number by which the demo at an address knows its function `answer`."""
    try:
        functions = httpx.get(f"{url}/config", timeout=30).raise_for_status().json()["dependencies"]
        return next(int(function["id"]) for function in functions if function["api_name"] == "answer")
    except (httpx.HTTPError, ValueError, KeyError, StopIteration) as error:
        raise UsageError(f"no demo answers at {url}; give the address that app.py printed") from error


async def visit(url: str, function: int, users: int, seconds: float, pause: float) -> Waits:
    """Let users ask until the time is over, each at least once."""
    waits = Waits()
    end = time.monotonic() + seconds
    questions = [question for department in list(texts.EXAMPLES.values())[:-1] for question in department]

    async def ask_on(user: int) -> None:
        draw = random.Random(user)
        async with httpx.AsyncClient(base_url=url, timeout=ANSWER_TIMEOUT) as client:
            # Not all come in the same moment.
            await asyncio.sleep(pause * draw.random())
            while True:
                try:
                    await ask(client, function, draw.choice(questions), waits)
                except (httpx.HTTPError, ValueError) as error:
                    waits.errors[f"{type(error).__name__} {str(error)[:80]}".strip()] += 1
                    # A server that turns everybody away must not be asked without a pause.
                    await asyncio.sleep(0.5)
                await asyncio.sleep(2 * pause * draw.random())
                if time.monotonic() >= end:
                    return

    await asyncio.gather(*(ask_on(user) for user in range(users)))
    return waits


async def ask(client: httpx.AsyncClient, function: int, question: str, waits: Waits) -> None:
    """Ask once; a `ValueError` says what the server refused."""
    session = uuid.uuid4().hex
    start = time.monotonic()
    body = {"data": [question, texts.OWN], "fn_index": function, "session_hash": session}
    (await client.post("/gradio_api/queue/join", json=body)).raise_for_status()
    first = None
    async with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as lines:
        async for line in lines.aiter_lines():
            message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
            if first is None and has_text(message):
                first = time.monotonic() - start
            if message.get("msg") == "process_completed":
                break
    if not message.get("success") or first is None:
        raise ValueError("no answer")
    waits.first.append(first)
    waits.whole.append(time.monotonic() - start)


def has_text(message: dict[str, Any]) -> bool:
    """Tell whether a server's message brings a part of the answer: the text, or what is to be changed in it."""
    if message.get("msg") not in ("process_generating", "process_completed"):
        return False
    return any(message["output"].get("data") or ())


def summary(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return median, 95th percentile and maximum in milliseconds; None of nothing."""
    if not seconds:
        return None
    ranked = sorted(1000 * value for value in seconds)
    return {
        "median": statistics.median(ranked),
        "p95": ranked[-(-95 * len(ranked) // 100) - 1],
        "max": ranked[-1],
    }


def memory_mb(process: int | None) -> float | None:
    """Return a process' resident memory; None where the system does not say."""
    file = Path(f"/proc/{process}/status")
    if process is None or not file.is_file():
        return None
    (line,) = (line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@contextmanager
def served(model: str) -> Iterator[tuple[str, int]]:
    """Serve a model's demo in a process of its own; give its address and the process' number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "wenzhen.demo", "--model", model, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunError(f"the demo of {model} did not start; try: python -m wenzhen.demo --model {model}")
            time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    """Tell whether a server answers."""
    try:
        return httpx.get(url, timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


def serving_table(result: dict[str, Any]) -> str:
    """Render a result for a terminal."""
    pause = f", {result['pause']:g} s of reading between two questions" if result["pause"] else ""
    lines = [f"{result['users']} users for {result['seconds']:.0f} s{pause}: {result['answers']:,} answers"]
    for key, name in (("first_character_ms", "first character"), ("whole_answer_ms", "whole answer")):
        if waits := result[key]:
            lines.append(
                f"  {name:<16} median {waits['median']:>7,.0f} ms   p95 {waits['p95']:>7,.0f} ms   "
                f"max {waits['max']:>7,.0f} ms"
            )
    memory = result["memory_mb"]
    if memory["start"] is not None:
        lines.append(f"  server's memory  {memory['start']:,.0f} MB before, {memory['end']:,.0f} MB after")
    errors = "; ".join(f"{count} times {error}" for error, count in result["errors"].items())
    return "\n".join([*lines, f"  errors           {errors or 'none'}"])
