"""A small Hub on loopback: what `huggingface_hub` and `datasets` ask of one to push to it and to load from it.

Everything is held in memory. Large files go by the LFS protocol's basic transfer, so a client must not use Xet.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import yaml

from hub_store import Commit, File, Repository

# What the Hub's own .gitattributes hand to LFS, as far as we push it.
LFS_SUFFIXES = (".parquet", ".arrow", ".safetensors", ".bin", ".png")
LFS_FROM_BYTES = 10_000_000
COMMIT_TIME = "2024-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Account:
    """Whom a token belongs to, and what it may do."""

    user: str
    role: str = "write"
    organizations: tuple[str, ...] = ()


@dataclass
class Fault:
    """A failure to come: the status to answer, or None to hang up."""

    method: str
    pattern: str
    status: int | None
    times: int


class RefusedError(Exception):
    """An error status with its message and the code by which the client tells what is missing."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Hub(ThreadingHTTPServer):
    """The server and all it holds; `requests` are the method and path of everything it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.accounts = {"hf_test": Account("tester", organizations=("clinic",))}
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.lock = threading.RLock()

    def fail(self, method: str, pattern: str, status: int | None, times: int = 1) -> None:
        """Let the next requests of a method, whose path holds the regular expression, fail.

        Args:
            method: as `PUT`.
            pattern: what the path must hold.
            status: what to answer; None hangs up without an answer.
            times: how many such requests fail.
        """
        self.faults.append(Fault(method, pattern, status, times))

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == method and re.search(fault.pattern, path):
                    fault.times -= 1
                    return fault
        return None

    def environment(self, home: Path, token: str | None = "hf_test") -> dict[str, str]:
        """Return the variables with which a fresh process takes this server for the Hub."""
        login = {"HF_TOKEN": token} if token else {}
        return login | {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
        }


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Yield a server that answers while the block runs."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


KIND = r"/api/(?P<kind>model|dataset|space)s/(?P<name>[^/]+/[^/]+)"
ROUTES = [
    ("GET", r"/api/whoami-v2", "whoami"),
    ("POST", r"/api/validate-yaml", "validate_yaml"),
    ("POST", r"/api/repos/create", "create"),
    ("GET", KIND + r"(?:/revision/(?P<revision>[^/]+))?", "info"),
    ("GET", KIND + r"/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?", "tree"),
    ("POST", KIND + r"/paths-info/(?P<revision>[^/]+)", "paths_info"),
    ("POST", KIND + r"/preupload/(?P<revision>[^/]+)", "preupload"),
    ("POST", KIND + r"/commit/(?P<revision>[^/]+)", "commit"),
    ("POST", r"/(?:(?P<kind>dataset|space)s/)?(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch", "lfs_batch"),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", "lfs_upload"),
    ("POST", r"/lfs/(?P<oid>[0-9a-f]{64})/verify", "lfs_verify"),
    (
        "GET",
        r"/(?:(?P<kind>dataset|space)s/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)",
        "resolve",
    ),
]


class Handler(BaseHTTPRequestHandler):
    """One connection; a route's method returns what to answer as JSON, or answers by itself and returns None."""

    protocol_version = "HTTP/1.1"
    # Headers and body go out separately, and the second would wait for the first's receipt.
    disable_nagle_algorithm = True
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        self.body = self.read_body()
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.server.requests.append((self.command, url.path))
        fault = self.server.take_fault(self.command, url.path)
        if fault and not fault.status:
            self.close_connection = True
            return
        try:
            if fault:
                raise RefusedError(fault.status, "as the test asked")
            with self.server.lock:
                result = self.route(url.path)
        except RefusedError as refusal:
            headers = {"X-Error-Message": quote(str(refusal), safe=" /'")}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self.send(refusal.status, {"error": str(refusal)}, headers)
        else:
            if result is not None:
                self.send(200, result)

    do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def route(self, path: str) -> Any:
        for method, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command.replace("HEAD", "GET"):
                return getattr(self, name)(**{key: unquote(text) for key, text in match.groupdict().items() if text})
        raise RefusedError(404, f"no such page: {self.command} {path}")

    def send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
            headers = {"Content-Type": "application/json"} | (headers or {})
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    # Who asks, and for what

    def account(self) -> Account | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.server.accounts:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return self.server.accounts.get(token)

    def check_may_write(self, owner: str) -> None:
        account = self.account()
        if account is None:
            raise RefusedError(401, "Invalid username or password.")
        if account.role == "read" or owner not in (account.user, *account.organizations):
            raise RefusedError(403, f"You don't have the rights to write under the namespace {owner}")

    def repository(self, kind: str, name: str, writing: bool = False) -> Repository:
        account = self.account()
        repository = self.server.repositories.get((kind, name))
        owners = (account.user, *account.organizations) if account else ()
        if repository is None or (repository.private and name.split("/")[0] not in owners):
            raise RefusedError(404 if account else 401, "Repository not found", "RepoNotFound")
        if writing:
            self.check_may_write(name.split("/")[0])
        return repository

    def at(self, repository: Repository, revision: str = "main") -> Commit:
        for commit in reversed(repository.commits):
            if revision in ("main", commit.oid):
                return commit
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    # Accounts and repositories

    def whoami(self) -> Any:
        account = self.account()
        if account is None:
            raise RefusedError(401, "Invalid username or password.")
        return {
            "type": "user",
            "name": account.user,
            "orgs": [{"type": "org", "name": name} for name in account.organizations],
            "auth": {"type": "access_token", "accessToken": {"displayName": "test", "role": account.role}},
        }

    def validate_yaml(self) -> Any:
        content = json.loads(self.body)["content"]
        match = re.match(r"---\n(.*?)\n---\n", content, re.DOTALL)
        try:
            data = yaml.safe_load(match[1]) if match else None
        except yaml.YAMLError as error:
            raise RefusedError(400, str(error).replace("\n", " ")) from error
        return {"errors": [], "warnings": [] if data else [{"message": "empty or missing yaml metadata"}]}

    def create(self) -> Any:
        wanted = json.loads(self.body)
        account = self.account()
        owner = wanted.get("organization") or (account.user if account else "")
        self.check_may_write(owner)
        kind, name = wanted.get("type", "model"), f"{owner}/{wanted['name']}"
        url = f"{self.server.url}/{'' if kind == 'model' else kind + 's/'}{name}"
        if (kind, name) in self.server.repositories:
            self.send(409, {"error": f"You already created this {kind} repo: {name}", "url": url})
            return None
        if (kind == "space") != ("sdk" in wanted):
            raise RefusedError(400, "a space, and nothing else, has an sdk")
        repository = Repository(kind, name, wanted.get("visibility") == "private")
        attributes = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES)
        repository.commit("initial commit", {".gitattributes": File(attributes.encode())})
        self.server.repositories[kind, name] = repository
        return {"url": url, "name": name}

    def info(self, kind: str, name: str, revision: str = "main") -> Any:
        repository = self.repository(kind, name)
        commit = self.at(repository, revision)
        return {
            "id": name,
            "author": name.split("/")[0],
            "sha": commit.oid,
            "private": repository.private,
            "gated": False,
            "disabled": False,
            "lastModified": COMMIT_TIME,
            "tags": [],
            "siblings": [{"rfilename": path} for path in commit.files],
        }

    # Files

    def tree(self, kind: str, name: str, revision: str, path: str = "") -> Any:
        commit = self.at(self.repository(kind, name), revision)
        prefix = f"{path}/" if path else ""
        below = {each: file for each, file in commit.files.items() if each.startswith(prefix)}
        if not below:
            raise RefusedError(404, f"{path} does not exist on {revision}", "EntryNotFound")
        folders = {str(parent) for each in below for parent in Path(each).parents if str(parent).startswith(prefix)}
        entries = [
            *({"type": "directory", "oid": "0" * 40, "size": 0, "path": each} for each in folders - {".", path})
        ]
        entries += [file.entry(each) for each, file in below.items()]
        if self.query.get("recursive") != ["true"]:
            entries = [each for each in entries if "/" not in each["path"].removeprefix(prefix)]
        return sorted(entries, key=lambda each: each["path"])

    def paths_info(self, kind: str, name: str, revision: str) -> Any:
        commit = self.at(self.repository(kind, name), revision)
        paths = parse_qs(self.body.decode())["paths"]
        return [commit.files[path].entry(path) for path in paths if path in commit.files]

    def preupload(self, kind: str, name: str, revision: str) -> Any:
        present = self.at(self.repository(kind, name, writing=True), revision).files
        answers = []
        for file in json.loads(self.body)["files"]:
            path, old = file["path"], present.get(file["path"])
            lfs = path.endswith(LFS_SUFFIXES) or file["size"] >= LFS_FROM_BYTES
            answer = {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
            answers.append(answer | ({"oid": old.sha256 if old.lfs else old.oid} if old else {}))
        return {"files": answers}

    def lfs_batch(self, name: str, kind: str = "model") -> Any:
        self.repository(kind, name, writing=True)
        objects = [{"oid": each["oid"], "size": each["size"]} for each in json.loads(self.body)["objects"]]
        for each in objects:
            if each["oid"] not in self.server.objects:
                href = f"{self.server.url}/lfs/{each['oid']}"
                each["actions"] = {"upload": {"href": href}, "verify": {"href": f"{href}/verify"}}
        return {"transfer": "basic", "objects": objects}

    def lfs_upload(self, oid: str) -> Any:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise RefusedError(400, "the content is not what was announced")
        self.server.objects[oid] = self.body
        return {}

    def lfs_verify(self, oid: str) -> Any:
        if json.loads(self.body)["size"] != len(self.server.objects.get(oid, b"")):
            raise RefusedError(404, "the object is not there")
        return {}

    def commit(self, kind: str, name: str, revision: str) -> Any:
        repository = self.repository(kind, name, writing=True)
        head = self.at(repository, revision)
        header, *operations = (json.loads(line) for line in self.body.splitlines())
        if header["value"].get("parentCommit", head.oid) != head.oid:
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = dict(head.files)
        for operation in operations:
            self.apply(files, operation["key"], operation["value"])
        commit = repository.commit(header["value"]["summary"], files)
        url = f"{self.server.url}/{'' if kind == 'model' else kind + 's/'}{name}/commit/{commit.oid}"
        return {"success": True, "commitOid": commit.oid, "commitUrl": url}

    def apply(self, files: dict[str, File], key: str, value: dict[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            files[path] = File(base64.b64decode(value["content"]))
        elif key == "lfsFile":
            if value["oid"] not in self.server.objects:
                raise RefusedError(400, f"{path} was not uploaded")
            files[path] = File(self.server.objects[value["oid"]], lfs=True)
        else:
            doomed = [each for each in files if each == path or (key == "deletedFolder" and each.startswith(path))]
            if not doomed:
                raise RefusedError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            for each in doomed:
                del files[each]

    def resolve(self, name: str, revision: str, path: str, kind: str = "model") -> None:
        commit = self.at(self.repository(kind, name), revision)
        file = commit.files.get(path)
        if file is None:
            raise RefusedError(404, f"Entry not found: {path}", "EntryNotFound")
        size, etag = len(file.content), f'"{file.sha256 if file.lfs else file.oid}"'
        headers = {"ETag": etag, "X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes", "X-Linked-Size": str(size)}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self.send(200, file.content, headers)
            return
        start, end = int(wanted[1]), min(int(wanted[2] or size) + 1, size)
        if start >= size:
            raise RefusedError(416, "Range Not Satisfiable")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.send(206, file.content[start:end], headers)
