"""The download as a user runs it: to a dataset, offline, and killed at any moment."""

import hashlib
import json
import random
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from data_scripts import build_dataset, download_corpus

from file_server import FileServer, dripping
from wenzhen.corpus.schema import SOURCE_FILES
from wenzhen.errors import run

NAMES = [f"Data_数据/{file}" for file in SOURCE_FILES.values()]
KILLS = 5
# Imports first, so that a kill strikes the download.
DRIVER = """
import json, sys
from pathlib import Path
from wenzhen.corpus.download import download_corpus

output, base_url, blob_ids = sys.argv[1:]
print("ready", flush=True)
for file in download_corpus(Path(output), base_url=base_url, blob_ids=json.loads(blob_ids)):
    print(file.path.name, flush=True)
"""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({}) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def blob_ids(server: FileServer) -> dict[str, str]:
    return {
        department: hashlib.sha1(b"blob %d\0" % len(server.files[name]) + server.files[name]).hexdigest()
        for department, name in zip(SOURCE_FILES, NAMES, strict=True)
    }


def test_from_the_download_to_a_dataset(
    server: FileServer,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.files |= {name: (corpus / name).read_bytes() for name in NAMES}
    monkeypatch.setattr(download_corpus, "BLOB_IDS", blob_ids(server))
    monkeypatch.chdir(tmp_path)
    arguments = ["--output", "my corpus", "--base-url", server.url]
    assert run(download_corpus.main, arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    size = len(server.files[NAMES[1]])
    assert lines[1] == f"Data_数据/IM_内科/内科5000-33000.csv\t{size:,} bytes, downloaded, verified"
    assert run(download_corpus.main, arguments) == 0
    assert capsys.readouterr().out.splitlines()[1] == lines[1].replace("downloaded", "already there")

    place, _, command = lines[6].removesuffix(")").partition("  (next: ")
    assert place == "corpus: my corpus"
    script, *words = shlex.split(command)[1:]
    assert script == "data_scripts/build_dataset.py"
    assert run(build_dataset.main, words) == 0
    assert "240 records read" in capsys.readouterr().out
    assert (tmp_path / words[-1] / "dataset_dict.json").is_file()


def test_without_a_network_one_line_and_exit_code_1(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.socket.shutdown(socket.SHUT_RDWR)
    assert run(download_corpus.main, ["--output", str(tmp_path), "--base-url", server.url]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("failed: 127.0.0.1 cannot be reached (Connection refused)")


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--retries", "-1", "--retries must be at least 0, got -1"),
        ("--timeout", "0", "--timeout must be above 0 and at most 3600, got 0.0"),
        ("--timeout", "nan", "--timeout must be above 0 and at most 3600, got nan"),
        ("--timeout", "1e9", "--timeout must be above 0 and at most 3600, got 1000000000.0"),
        ("--base-url", "mirror", "the base URL must be http://HOST/PATH or https://HOST/PATH, got 'mirror'"),
    ],
)
def test_flags_that_cannot_be_meant(
    flag: str, value: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(download_corpus.main, ["--output", str(tmp_path / "corpus"), flag, value]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not (tmp_path / "corpus").exists()


def test_killed_at_any_moment_the_next_run_goes_on(server: FileServer, tmp_path: Path) -> None:
    chance = random.Random(1)
    server.files |= {name: chance.randbytes(150_000) for name in NAMES}
    server.default = dripping(2**13, 0.005)
    ids = blob_ids(server)
    output = tmp_path / "corpus"
    driver = [sys.executable, "-c", DRIVER, str(output), server.url, json.dumps(ids)]
    arrived: set[str] = set()
    for _ in range(KILLS):
        with subprocess.Popen(driver, stdout=subprocess.PIPE) as process:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.0, 0.25))
            process.kill()
        present = {name for name in NAMES if (output / name).exists()}
        assert all((output / name).read_bytes() == server.files[name] for name in present)
        assert present >= arrived
        arrived = present
    finished = subprocess.run(driver, capture_output=True, check=True, text=True)
    assert finished.stdout.split() == ["ready", *(Path(name).name for name in NAMES)]
    assert all((output / name).read_bytes() == content for name, content in server.files.items())
    assert not list(output.rglob("*.part"))
    assert any(server.ranges), "no run went on in the middle of a file"
