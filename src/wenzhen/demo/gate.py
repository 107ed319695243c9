"""What the demo's server lets in: the page and its interface, in requests of a bounded size that hold what they must.

None of the routes for files, uploads, links and statistics that Gradio brings along is let in, nor any that it may
bring one day.
"""

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from wenzhen.demo import texts
from wenzhen.demo.bodies import NotAdmittedError, checked_body
from wenzhen.demo.failures import report

if TYPE_CHECKING:
    from starlette.middleware import Middleware

# A question of 10,000 characters, escaped, has 60,000 bytes.
MAX_BODY = 256 * 1024
NAME = r"[\w.@+-]+"
# Method -> paths; a name has no slash, so no path leads upwards.
PATHS = {
    "GET": re.compile(
        rf"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/robots\.txt|/pwa_icon(/\d+)?"
        rf"|/(assets|static)(/{NAME})+"
        rf"|/gradio_api/(info|openapi\.json|startup-events|app_id|theme\.css|queue/(data|status))/?"
        rf"|/gradio_api/heartbeat/{NAME}|/gradio_api/call/{NAME}/{NAME}"
    ),
    "POST": re.compile(rf"/gradio_api/(queue/join|cancel|reset|(run|call)/{NAME})/?"),
}
STREAM = re.compile(rf"/gradio_api/(queue/data/?|call/{NAME}/(?P<event>{NAME}))")
PATHS["HEAD"] = PATHS["GET"]


class Gate:
    """An ASGI application in front of another.

    Args:
        app: the other.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request in, or answer it; see [`admitted`]. Of what fails behind the gate nothing is printed."""
        from starlette.responses import JSONResponse

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        last: Any = None

        async def watched(message: Any) -> None:
            nonlocal last
            last = message
            await send(message)

        try:
            receive = await admitted(scope, receive)
            await self.app(scope, receive, explained(watched, scope, receive))
        except NotAdmittedError as refused:
            headers = {"Connection": "close"} if refused.status == 413 else None
            await JSONResponse({"detail": refused.detail}, refused.status, headers)(scope, receive, send)
        except Exception as error:
            report(error)
            if last is None:
                await JSONResponse({"detail": " ".join(texts.FAILED)}, 500)(scope, receive, send)
            elif last["type"] == "http.response.start" or last.get("more_body"):
                await send({"type": "http.response.body"})


async def admitted(scope: Any, receive: Any) -> Any:
    """Return the `receive` of a request that is let in.

    Raises:
        NotAdmittedError: 404 for no such page, function or answer under way, 413 for too large a body, 415 for one
            that is no JSON, 422 for one that holds what it should not.
    """
    path, blocks = scope["path"], scope["app"].get_blocks()
    allowed = PATHS.get(scope["method"])
    if allowed is None or not allowed.fullmatch(path) or "/.." in path:
        raise NotAdmittedError(404, texts.NO_SUCH_PAGE)
    stream = STREAM.fullmatch(path)
    if stream and not under_way(blocks._queue, stream["event"], scope["query_string"].decode("latin-1")):
        raise NotAdmittedError(404, texts.NO_SUCH_ANSWER)
    if scope["method"] != "POST":
        return receive
    body = await read_body(receive)
    if body is None:
        raise NotAdmittedError(413, texts.TOO_LARGE)
    if media_type(scope) != b"application/json":
        raise NotAdmittedError(415, texts.NO_JSON)
    action = path.removeprefix("/gradio_api/").rstrip("/")
    return replayed(checked_body(action, body, blocks.fns), receive)


def under_way(queue: Any, event: str | None, query: str) -> bool:
    """Tell whether an answer is being written, by its event or by the session that the query names.

    Gradio would begin to send what there is not, and fail.
    """
    if event is None:
        session = parse_qs(query).get("session_hash", [""])[-1]
        return session in queue.pending_messages_per_session
    return event in queue.event_ids_to_events or any(event in ids for ids in queue.pending_event_ids_session.values())


def media_type(scope: Any) -> bytes:
    """Return what a request says that its body is."""
    content_type: bytes = dict(scope["headers"]).get(b"content-type", b"")
    return content_type.partition(b";")[0].strip().lower()


def explained(send: Any, scope: Any, receive: Any) -> Any:
    """Return a `send` that says in the page's languages that the queue is full.

    Gradio says so with 503, in whose place its page shows a sentence of its own, and only in English.
    """
    from starlette.responses import JSONResponse

    full = False

    async def explain(message: Any) -> None:
        nonlocal full
        if message["type"] == "http.response.start" and message["status"] == 503:
            full = True
            await JSONResponse({"detail": texts.QUEUE_FULL}, 429)(scope, receive, send)
        elif not full:
            await send(message)

    return explain


async def read_body(receive: Any) -> bytes | None:
    """Return a request's body; None where it is larger than a question can be, of which no more is read then."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return body


def replayed(body: bytes, receive: Any) -> Any:
    """Return a `receive` that gives a body that was read already, then what the client does next."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return pending.pop() if pending else await receive()

    return replay


def gate() -> "Middleware":
    """Return the gate as the server takes it."""
    from starlette.middleware import Middleware

    return Middleware(Gate)
