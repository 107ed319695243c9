"""What the demo's server lets in."""

import socket
from urllib.parse import urlsplit

import pytest
import requests

from wenzhen.demo.gate import MAX_BODY


def status(url: str, method: str, path: str) -> int:
    """Ask for a path as it is written; an HTTP library would tidy it up."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(request.encode())
        return int(connection.recv(64).split()[1])


@pytest.mark.parametrize(
    "path", ["/", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/openapi.json", "/?view=api&lang=zh"]
)
def test_page_and_its_interface_are_served(url: str, path: str) -> None:
    assert status(url, "GET", path) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file%3D/etc/passwd",
        "/gradio_api/file/etc/passwd",
        "/file=/etc/passwd",
        "/file=../../etc/passwd",
        "/static/../../../etc/passwd",
        "/static/..%2f..%2f..%2fetc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%5c..%5cetc/passwd",
        "/assets//etc/passwd",
        "/gradio_api/proxy=http://127.0.0.1/",
        "/gradio_api/custom_component/a/client/b/c.js",
        "/gradio_api/stream/a/b/1/playlist.m3u8",
        "/gradio_api/deep_link?session_hash=a",
        "/gradio_api/upload_progress?upload_id=a",
        "/gradio_api/vibe-code/",
        "/gradio_api/runs",
        "/gradio_api/token",
        "/monitoring",
        "/monitoring/summary",
        "/docs",
        "//",
    ],
)
def test_files_links_and_statistics_are_not(url: str, path: str) -> None:
    assert status(url, "GET", path) == 404
    assert status(url, "HEAD", path) == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/gradio_api/upload"),
        ("POST", "/gradio_api/component_server"),
        ("POST", "/gradio_api/process_recording"),
        ("POST", "/login"),
        ("DELETE", "/"),
        ("OPTIONS", "/gradio_api/upload"),
        ("PUT", "/config"),
    ],
)
def test_uploads_and_other_methods_are_not(url: str, method: str, path: str) -> None:
    assert status(url, method, path) == 404


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_refused_before_they_are_read(url: str, chunked: bool) -> None:
    half = b"a" * (MAX_BODY // 2 + 1)
    body = iter([half, half]) if chunked else 2 * half
    answer = requests.post(f"{url}/gradio_api/queue/join", data=body, timeout=10)
    assert answer.status_code == 413
    assert "too large" in answer.text


def test_no_other_site_may_ask(url: str) -> None:
    headers = {"Origin": "http://example.com", "Host": urlsplit(url).netloc}
    answer = requests.get(f"{url}/config", headers=headers, timeout=10)
    assert answer.headers.get("Access-Control-Allow-Origin") not in ("*", "http://example.com")
