"""What the demo's server lets in: the page and its interface, in requests of a bounded size; none of the routes for
files, uploads, links and statistics that Gradio brings along, nor any that it may bring one day."""

import re
from typing import TYPE_CHECKING, Any

from wenzhen.demo import texts

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
    "POST": re.compile(
        rf"/gradio_api/(queue/join|cancel|reset)/?|/gradio_api/(run|api|call)/{NAME}/?|/gradio_api/call/v2/{NAME}/?"
    ),
}
PATHS["HEAD"] = PATHS["GET"]


class Gate:
    """An ASGI application in front of another.

    Args:
        app: the other.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request in, or answer it: 404 for no such page, 413 for too large a body."""
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        allowed = PATHS.get(scope["method"])
        if allowed is None or not allowed.fullmatch(scope["path"]) or "/.." in scope["path"]:
            await PlainTextResponse(texts.NO_SUCH_PAGE, 404)(scope, receive, send)
            return
        if scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:
            await PlainTextResponse(texts.TOO_LARGE, 413, {"Connection": "close"})(scope, receive, send)
            return
        await self.app(scope, replayed(body, receive), explained(send, scope, receive))


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
