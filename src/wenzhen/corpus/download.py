"""Downloading the original corpus: six CSVs of one commit, each verified by its git blob id before it gets its name.

Until then a file lies beside its place as `<name>.part`; an attempt that was cut short leaves it, the next one asks
for the rest. So a run may be stopped at any moment, and no file under its own name is ever half or wrong.
"""

import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from ssl import SSLCertVerificationError
from urllib.parse import quote, urlsplit

import requests
from tqdm import tqdm
from urllib3.exceptions import HTTPError, InvalidHeader, NewConnectionError
from urllib3.util.retry import Retry

from wenzhen.corpus.schema import DATA_FOLDER, SOURCE_FILES
from wenzhen.errors import RunError, UsageError

REPOSITORY = "Toyhom/Chinese-medical-dialogue-data"
COMMIT = "26724a4357fcd142f0cab81188cacf1a2dd8a827"
BASE_URL = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}"
# Git blob id of each department's file at that commit.
BLOB_IDS = {
    "男科": "ab9752e9748e9670ef4486fe4a0d6406e3481715",
    "内科": "308341e3c4fd997877857bb566a2b786abca0f39",
    "妇产科": "32b0897cb041c4f72f23dfddc4d8957b6fd37812",
    "肿瘤科": "64537063130d42e891e1160394248eafdee2279b",
    "儿科": "ea47a9b26d1fe6a986736183acfcb1eb218ceacf",
    "外科": "3804d05327a717d9b421d37f55d7734fea73b11d",
}

LOCK_FILE = ".download.lock"
CHUNK_BYTES = 2**14
# Failures count as consecutive until so many bytes beyond the farthest point so far have arrived between them.
PROGRESS_BYTES = 2**20
# The longest wait between two attempts, also where a server asks for a longer one.
LONGEST_WAIT_SECONDS = 60.0
# No file is longer, and Python makes no number of thousands of digits.
LENGTH = r"[0-9]{1,18}"
CONTENT_RANGE = re.compile(rf"bytes ({LENGTH})-{LENGTH}/({LENGTH}|\*)")


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A verified file: where it lies, its size in bytes, and whether this run has fetched it or it was there."""

    path: Path
    size: int
    fetched: bool


class TransientError(Exception):
    """An attempt that failed and may go better; `retry_after` is the wait in seconds that the server asks for."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def download_corpus(
    output: Path,
    *,
    base_url: str = BASE_URL,
    blob_ids: Mapping[str, str] = BLOB_IDS,
    retries: int = 5,
    timeout: float = 30.0,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[DownloadedFile]:
    """Fetch the departments' CSVs into `output`, in the original's folders; yield each once it is verified.

    Args:
        output: the folder; a file that lies there and is the original is not fetched again.
        base_url: what holds the original's `Data_数据` folder.
        blob_ids: the git blob id that each department's file must have.
        retries: how many failures of one file in a row are tried again; a host that cannot be reached at all is not.
        timeout: seconds without a byte after which an attempt has failed.
        sleep: waits so many seconds between two attempts.

    Raises:
        UsageError: the base URL or the output cannot be meant.
        RunError: a file could not be fetched, verified or written, or another download into `output` is running.
    """
    check_base_url(base_url)
    for folder in (output, *output.parents):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"the output {output} cannot be made: {folder} is a file; name a folder")
    output.mkdir(parents=True, exist_ok=True)
    with locked(output):
        downloader = Downloader(retries, timeout, sleep)
        for department, blob_id in blob_ids.items():
            name = f"{DATA_FOLDER}/{SOURCE_FILES[department]}"
            path = output / name
            part = path.with_name(f"{path.name}.part")
            fetched = not lies_there(path, blob_id)
            if fetched:
                path.parent.mkdir(parents=True, exist_ok=True)
                downloader.fetch(f"{base_url.rstrip('/')}/{quote(name)}", part, path, blob_id)
                publish(part, path)
            else:
                part.unlink(missing_ok=True)
            yield DownloadedFile(path, size_of(path), fetched)


def check_base_url(url: str) -> None:
    """Refuse what no file's name can be put behind."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.query or parts.fragment:
        raise UsageError(f"the base URL must be http://HOST/PATH or https://HOST/PATH, got {url!r}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other downloads out of `folder`; the system gives the lock back however the process ends."""
    with (folder / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(f"another download into {folder} is running; wait for its end") from error
        yield


def lies_there(path: Path, blob_id: str) -> bool:
    """Return whether the original lies at `path`; say so where it is another file."""
    if not path.exists():
        return False
    if not path.is_file():
        raise UsageError(f"{path} is no file; move it away")
    got = git_blob_id(path)
    if got != blob_id:
        tell(f"{path} is not the original (git blob {got}, not {blob_id}); it stays until the original is here")
    return got == blob_id


def git_blob_id(path: Path) -> str:
    """Return what `git hash-object` gives: the SHA-1 over `blob <bytes>`, a zero byte and the content."""
    with path.open("rb") as file:
        header = b"blob %d\0" % os.fstat(file.fileno()).st_size
        return hashlib.file_digest(file, lambda: hashlib.sha1(header)).hexdigest()


def publish(part: Path, path: Path) -> None:
    """Give a verified file its name, in one step, once it lies safely on the disk."""
    with stored(part), part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


@contextmanager
def stored(part: Path) -> Iterator[None]:
    """Turn what the disk refuses into a message that says what is kept."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{part} cannot be written: {error.strerror}; {size_of(part):,} bytes are kept: make room, then run the "
            "same command again"
        ) from error


def size_of(path: Path) -> int:
    """Return the file's size in bytes, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def tell(message: str) -> None:
    """Write a line to standard error, above any progress bar."""
    tqdm.write(message, file=sys.stderr)


def check_status(response: requests.Response) -> None:
    """Refuse a response without the file's bytes.

    Raises:
        TransientError: the server is busy or in trouble.
        RunError: it will not give the file.
    """
    if response.status_code in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        return
    status = f"{response.status_code} {response.reason}"
    if (
        response.status_code == HTTPStatus.TOO_MANY_REQUESTS
        or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    ):
        retry_after = None
        with suppress(InvalidHeader, ValueError, OverflowError):
            retry_after = Retry().get_retry_after(response.raw)
        raise TransientError(f"the server answers {status}", retry_after)
    raise RunError(
        f"{response.url} cannot be fetched: {status}; check that the base URL is what holds {DATA_FOLDER}/, and that "
        "no login or proxy stands before it"
    )


def body_range(response: requests.Response, part: Path, size: int) -> tuple[int, int | None]:
    """Return the offset in the file of the body's first byte, 0 or `size`, and the file's length, None if not said.

    Raises:
        TransientError: the body begins elsewhere; `part` is thrown away, since such a server cannot complete it.
    """
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    if response.status_code == HTTPStatus.OK:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch(LENGTH, length) and not encoded else None
    match = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != size or encoded:
        part.unlink(missing_ok=True)
        raise TransientError(f"the server sent another range than the asked one, which began at byte {size:,}")
    return size, None if match[2] == "*" else int(match[2])


def verify(part: Path, blob_id: str, complete: bool) -> None:
    """Compare `part` with the original.

    Raises:
        TransientError: it is another file; where it is `complete`, it is thrown away, else it may lack its end.
    """
    got = git_blob_id(part)
    if got == blob_id:
        return
    size = size_of(part)
    if complete:
        part.unlink()
    raise TransientError(f"the {size:,} bytes that came are not the original: git blob {got}, expected {blob_id}")


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, what caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@dataclass
class Downloader:
    """Attempts one file after the other; the fields are [`download_corpus`]' arguments."""

    retries: int
    timeout: float
    sleep: Callable[[float], object]
    # Whether the host has answered in this run: one that never did is taken for out of reach.
    reached: bool = False

    def fetch(self, url: str, part: Path, path: Path, blob_id: str) -> None:
        """Attempt the file until the bytes of `part` are the original's; `path` is where they belong.

        Raises:
            RunError: another attempt would not help, or `retries` are used up.
        """
        farthest = size_of(part)
        inherited = farthest > 0
        failures = 0
        while True:
            try:
                complete = self.attempt(url, part, path)
                verify(part, blob_id, complete)
                return
            except TransientError as error:
                size = size_of(part)
                if inherited and not size:
                    # An earlier run's part was of no use, which is no fault of this run.
                    inherited = False
                    continue
                if size >= farthest + PROGRESS_BYTES:
                    farthest, failures = size, 0
                failures += 1
                if failures > self.retries:
                    raise RunError(
                        f"{url} cannot be fetched: {error} (failures in a row: {failures}); {size:,} bytes are kept, "
                        f"nothing was put to {path}; run the same command again, or name a mirror with --base-url"
                    ) from error
                wait = 2.0 ** min(failures - 1, 10) if error.retry_after is None else error.retry_after
                wait = min(wait, LONGEST_WAIT_SECONDS)
                tell(f"{path.name}: {error}; again in {wait:g} s (retry {failures} of {self.retries})")
                self.sleep(wait)

    def attempt(self, url: str, part: Path, path: Path) -> bool:
        """Ask once for what `part` lacks and write it there.

        Returns:
            Whether the server has said how long the file is, and `part` is that long or longer.

        Raises:
            TransientError: another attempt may bring the rest.
            RunError: it would not, or the disk refuses.
        """
        size = size_of(part)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={size}-"} if size else {})
        try:
            # A connection of its own: one kept from the file before may have been closed by the server.
            with requests.get(url, headers=headers, timeout=self.timeout, stream=True) as response:
                self.reached = True
                if size and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return True
                check_status(response)
                start, length = body_range(response, part, size)
                self.write_body(response, part, start, length)
        # A redirect to what is no URL, or no text, is a plain ValueError.
        except (requests.RequestException, HTTPError, ValueError) as error:
            raise self.failure(error, url, path) from error
        size = size_of(part)
        if length is not None and size < length:
            raise TransientError(f"the connection closed after {size:,} of {length:,} bytes")
        return length is not None

    def write_body(self, response: requests.Response, part: Path, start: int, length: int | None) -> None:
        """Write a response's body to `part`, from byte `start` on, as it arrives."""
        with (
            tqdm(
                desc=part.stem,
                initial=start,
                total=length,
                unit="B",
                unit_scale=True,
                unit_divisor=1024,
                leave=False,
                disable=None,
            ) as progress,
            stored(part),
            part.open("ab" if start else "wb") as file,
        ):
            # Unlike `iter_content`, keeps what has come where the connection ends within a chunk.
            while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
                file.write(chunk)
                progress.update(len(chunk))

    def failure(self, error: Exception, url: str, path: Path) -> Exception:
        """Return what to raise for an attempt that brought no complete response."""
        causes = list(chain_of(error))
        reasons = [
            cause.strerror or str(cause)
            for cause in causes
            if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException)
        ]
        if any(isinstance(cause, TimeoutError) for cause in causes):
            reasons.append(f"no byte for {self.timeout:g} s")
        reason = reasons[-1] if reasons else "the connection closed early"
        if isinstance(error, requests.exceptions.ProxyError):
            reason += ", through the proxy that the environment names"
        if any(isinstance(cause, NewConnectionError) for cause in causes) and not self.reached:
            return RunError(
                f"{urlsplit(url).hostname} cannot be reached ({reason}); tried {url}; what has arrived stays: run the "
                "same command again with a network, name a mirror with --base-url, or fetch the file elsewhere and "
                f"put it to {path}"
            )
        # A host name or a redirect that cannot be one, or a certificate that is not trusted.
        hopeless = isinstance(error, ValueError) or any(
            isinstance(cause, SSLCertVerificationError) for cause in causes
        )
        if isinstance(error, (requests.ConnectionError, requests.Timeout, HTTPError)) and not hopeless:
            return TransientError(reason)
        return RunError(f"{url} cannot be fetched: {reasons[-1] if reasons else error}")
