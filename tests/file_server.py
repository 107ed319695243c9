"""A web server on loopback that gives files, with whatever fault a test has put before a request."""

import gzip
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

# Answers one request for a file's content from a byte on.
Answer = Callable[["Handler", bytes, int], None]


class FileServer(ThreadingHTTPServer):
    """Serves `files` by name; `plans` holds the answers to a name's next requests, `default` gives all others."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.plans: dict[str, list[Answer]] = defaultdict(list)
        self.default: Answer = honest
        self.paths: list[str] = []
        self.ranges: list[str | None] = []
        self.encodings: set[str | None] = set()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent when a client goes away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.paths.append(self.path)
        self.server.ranges.append(asked)
        self.server.encodings.add(self.headers["Accept-Encoding"])
        name = unquote(self.path).lstrip("/")
        if name not in self.server.files:
            return self.reply(404, b"nothing here")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        plan = self.server.plans[name]
        answer = plan.pop(0) if plan else self.server.default
        return answer(self, self.server.files[name], start)

    def reply(self, status: int, body: bytes, **headers: object) -> None:
        """Send headers and a body; `content_length=None` leaves the length out and ends the connection."""
        self.send_response(status)
        for name, value in ({"content_length": len(body)} | headers).items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        if headers.get("content_length", 0) is None:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def honest(handler: Handler, content: bytes, start: int, sent: int | None = None) -> None:
    """Answer as a server should, except for `sent`: how many bytes of the body leave before the connection closes."""
    end = len(content) if sent is None else start + sent
    rest = {"content_length": len(content) - start}
    if sent is not None:
        handler.close_connection = True
    if not start:
        handler.reply(200, content[:end], **rest)
    elif start < len(content):
        handler.reply(206, content[start:end], content_range=range_of(content, start), **rest)
    else:
        handler.reply(416, b"", content_range=f"bytes */{len(content)}")


def range_of(content: bytes, start: int) -> str:
    return f"bytes {start}-{len(content) - 1}/{len(content)}"


def dropped(sent: int) -> Answer:
    """Close the connection after so many bytes of the announced body."""
    return lambda handler, content, start: honest(handler, content, start, sent)


def reset(handler: Handler, content: bytes, start: int) -> None:
    """Break the connection off in the middle, so that the client meets an error, not an end."""
    honest(handler, content, start, (len(content) - start) // 2)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def stalled(handler: Handler, content: bytes, start: int) -> None:
    """Send half and then nothing, until the test releases."""
    honest(handler, content, start, (len(content) - start) // 2)
    handler.server.released.wait(10)


def gone(handler: Handler, content: bytes, start: int) -> None:
    """Send half; from then on the server takes no connection."""
    handler.server.socket.shutdown(socket.SHUT_RDWR)
    honest(handler, content, start, (len(content) - start) // 2)


def unannounced(sent: int) -> Answer:
    """Send so many bytes of a body whose length is not said."""

    def answer(handler: Handler, content: bytes, start: int) -> None:
        headers = {"content_range": f"bytes {start}-{len(content) - 1}/*"} if start else {}
        handler.reply(206 if start else 200, content[start : start + sent], content_length=None, **headers)

    return answer


def chunked(sent: int, end: bool) -> Answer:
    """Send so many bytes in chunks, with or without the empty chunk that says that this was all."""

    def answer(handler: Handler, content: bytes, start: int) -> None:
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(content[:sent], 7_000))
        handler.close_connection = True
        handler.reply(200, body + b"0\r\n\r\n" * end, content_length=None, transfer_encoding="chunked")

    return answer


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[position : position + size] for position in range(0, len(content), size))


def unannounced_other_bytes(handler: Handler, content: bytes, start: int) -> None:
    handler.reply(200, content[::-1], content_length=None)


def other_bytes(handler: Handler, content: bytes, start: int) -> None:
    honest(handler, content[::-1], start)


def range_ignored(handler: Handler, content: bytes, start: int) -> None:
    handler.reply(200, content)


def wrong_range(handler: Handler, content: bytes, start: int) -> None:
    handler.reply(206, content[start - 1 :], content_range=range_of(content, start - 1))


def in_parts(size: int) -> Answer:
    """Give at most so many bytes of a range, as a server may, and say so."""

    def answer(handler: Handler, content: bytes, start: int) -> None:
        part = content[start : start + size]
        handler.reply(206, part, content_range=f"bytes {start}-{start + len(part) - 1}/{len(content)}")

    return answer


def no_range(handler: Handler, content: bytes, start: int) -> None:
    handler.reply(206, content[start:])


def compressed(handler: Handler, content: bytes, start: int) -> None:
    headers = {"content_range": range_of(content, start)} if start else {}
    handler.reply(206 if start else 200, gzip.compress(content[start:]), content_encoding="gzip", **headers)


def status(code: int, **headers: object) -> Answer:
    return lambda handler, content, start: handler.reply(code, b"no file", **headers)


def dripping(size: int, seconds: float) -> Answer:
    """Answer well but slowly: pieces of `size` bytes with a pause after each."""

    def answer(handler: Handler, content: bytes, start: int) -> None:
        honest(handler, content, start, 0)
        for piece in pieces(content[start:], size):
            handler.wfile.write(piece)
            time.sleep(seconds)

    return answer
