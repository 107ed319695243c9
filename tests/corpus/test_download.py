import hashlib
import random
import resource
import socket
import threading
from email.utils import formatdate

import pytest

from file_server import (
    FileServer,
    chunked,
    compressed,
    dropped,
    gone,
    in_parts,
    no_range,
    other_bytes,
    range_ignored,
    reset,
    stalled,
    status,
    unannounced,
    unannounced_other_bytes,
    wrong_range,
)
from wenzhen.corpus import download
from wenzhen.corpus.download import BASE_URL, BLOB_IDS, download_corpus, git_blob_id
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES
from wenzhen.errors import RunError, UsageError

SIZE = 40_000
NAMES = {department: f"Data_数据/{file}" for department, file in SOURCE_FILES.items()}
NAME = NAMES["内科"]


def blob_id(content):
    return hashlib.sha1(b"blob " + str(len(content)).encode() + b"\x00" + content).hexdigest()


def random_bytes(seed):
    return random.Random(seed).randbytes(SIZE)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server():
    files = {name: random_bytes(number) for number, name in enumerate(NAMES.values())}
    with FileServer(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(server, tmp_path):
    """Download one file; the waits between attempts are only written down."""

    def run(**options):
        run.waits.clear()
        server.paths.clear()
        server.ranges.clear()
        options = {"base_url": server.url, "blob_ids": {"内科": blob_id(server.files[NAME])}} | options
        [file] = download_corpus(tmp_path, sleep=run.waits.append, **options)
        assert file.path.read_bytes() == server.files[NAME]
        assert not run.part.exists()
        return file

    run.waits = []
    run.path = tmp_path / NAME
    run.part = run.path.with_name(f"{run.path.name}.part")
    run.path.parent.mkdir(parents=True)
    return run


def test_git_blob_id_is_that_of_git(tmp_path):
    # `git hash-object` on these two files.
    for content, expected in [
        (b"", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
        (b"hello world\n", "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"),
    ]:
        path = tmp_path / "file"
        path.write_bytes(content)
        assert git_blob_id(path) == expected


def test_the_original_is_named_by_commit_and_blob():
    assert tuple(BLOB_IDS) == DEPARTMENTS
    assert all(len(bytes.fromhex(value)) == 20 for value in BLOB_IDS.values())
    assert BASE_URL.endswith("Toyhom/Chinese-medical-dialogue-data/26724a4357fcd142f0cab81188cacf1a2dd8a827")


def test_six_files_arrive_once(server, tmp_path):
    blob_ids = {department: blob_id(server.files[name]) for department, name in NAMES.items()}
    server.files |= {f"mirror/{name}": content for name, content in server.files.items()}
    options = {"base_url": f"{server.url}/mirror/", "blob_ids": blob_ids}
    first = list(download_corpus(tmp_path / "new" / "corpus", **options))
    assert [(file.path, file.size, file.fetched) for file in first] == [
        (tmp_path / "new" / "corpus" / name, SIZE, True) for name in NAMES.values()
    ]
    assert all(file.path.read_bytes() == server.files[name] for file, name in zip(first, NAMES.values(), strict=True))
    assert (server.ranges, server.encodings) == ([None] * 6, {"identity"})
    assert server.paths[1] == "/mirror/Data_%E6%95%B0%E6%8D%AE/IM_%E5%86%85%E7%A7%91/%E5%86%85%E7%A7%915000-33000.csv"

    again = list(download_corpus(tmp_path / "new" / "corpus", **options))
    assert [(file.path, file.fetched) for file in again] == [(file.path, False) for file in first]
    assert len(server.paths) == 6


@pytest.mark.parametrize(
    ("plan", "ranges", "waits"),
    [
        ([dropped(17_000)], [None, "bytes=17000-"], [1]),
        ([dropped(0)], [None, None], [1]),
        (
            [dropped(9_000), dropped(9_000), dropped(9_000)],
            [None, "bytes=9000-", "bytes=18000-", "bytes=27000-"],
            [1, 2, 4],
        ),
        ([unannounced(20_000)], [None, "bytes=20000-"], [1]),
        ([unannounced(20_000), unannounced(10_000)], [None, "bytes=20000-", "bytes=30000-"], [1, 2]),
        ([unannounced(SIZE)], [None], []),
        ([chunked(SIZE, end=True)], [None], []),
        ([chunked(21_000, end=False)], [None, "bytes=21000-"], [1]),
        ([unannounced_other_bytes], [None, "bytes=40000-", None], [1, 2]),
        ([other_bytes], [None, None], [1]),
        ([dropped(17_000), other_bytes], [None, "bytes=17000-", None], [1, 2]),
        ([in_parts(15_000)] * 3, [None, "bytes=15000-", "bytes=30000-"], [1, 2]),
        ([dropped(17_000), range_ignored], [None, "bytes=17000-"], [1]),
        ([dropped(17_000), wrong_range], [None, "bytes=17000-", None], [1, 2]),
        ([dropped(17_000), no_range], [None, "bytes=17000-", None], [1, 2]),
        ([compressed], [None], []),
        ([dropped(17_000), compressed], [None, "bytes=17000-", None], [1, 2]),
        ([status(500), status(502)], [None, None, None], [1, 2]),
        ([dropped(17_000), status(503, retry_after=7)], [None, "bytes=17000-", "bytes=17000-"], [1, 7]),
        ([status(429, retry_after=10**6)], [None, None], [60]),
        ([status(429, retry_after=formatdate(0, usegmt=True))], [None, None], [0]),
        ([status(503, retry_after="soon")], [None, None], [1]),
        ([status(503, retry_after="9" * 5000)], [None, None], [1]),
    ],
)
def test_faults_are_overcome(server, fetch, plan, ranges, waits):
    server.plans[NAME] = list(plan)
    assert fetch().fetched
    assert (server.ranges, fetch.waits) == (ranges, waits)


def test_broken_connection_is_resumed(server, fetch, capsys):
    server.plans[NAME] = [reset]
    fetch()
    assert (len(server.ranges), fetch.waits) == (2, [1])
    assert "内科5000-33000.csv: " in capsys.readouterr().err


def test_another_range_than_the_asked_one_is_named(server, fetch, capsys):
    server.plans[NAME] = [dropped(17_000), wrong_range]
    fetch()
    assert "another range than the asked one, which began at byte 17,000; again in 2 s" in capsys.readouterr().err


def test_silent_server_is_given_up_after_the_timeout(server, fetch, capsys):
    server.plans[NAME] = [stalled]
    fetch(timeout=0.2)
    assert (server.ranges, fetch.waits) == ([None, "bytes=20000-"], [1])
    assert "no byte for 0.2 s; again in 1 s (retry 1 of 5)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("left", "ranges"),
    [
        (lambda content: content[:12_345], ["bytes=12345-"]),
        (lambda content: content, ["bytes=40000-"]),
        (lambda content: content + b"more", ["bytes=40004-", None]),
        (lambda content: content[:-1] + b"?", ["bytes=40000-", None]),
        (lambda content: b"?" * 100, ["bytes=100-", None]),
        (lambda content: b"", [None]),
    ],
)
def test_what_an_earlier_run_left_is_used_or_thrown_away(server, fetch, left, ranges):
    fetch.part.write_bytes(left(server.files[NAME]))
    fetch(retries=0)
    assert (server.ranges, fetch.waits) == (ranges, [])


@pytest.mark.parametrize("code", [401, 403, 404, 410, 416])
def test_refusals_are_not_tried_again(server, fetch, code):
    server.plans[NAME] = [status(code)]
    with pytest.raises(
        RunError, match=rf"{server.url}/Data_.*\.csv cannot be fetched: {code} .*check that the base URL"
    ):
        fetch()
    assert (server.ranges, fetch.waits) == ([None], [])
    assert not fetch.path.exists()


@pytest.mark.parametrize("location", ["http://[::/", "http://127.0.0.1/\xff\xfe"])
def test_a_redirect_to_what_is_no_url_is_one_line(server, fetch, location):
    server.plans[NAME] = [status(302, location=location)]
    with pytest.raises(RunError, match=rf"{server.url}/Data_.*\.csv cannot be fetched: ") as caught:
        fetch()
    assert "\n" not in str(caught.value)
    assert (server.ranges, fetch.waits) == ([None], [])


def test_a_length_of_thousands_of_digits_is_none(server, fetch):
    digits = "9" * 5_000
    fetch.part.write_bytes(server.files[NAME][:100])
    server.plans[NAME] = [
        status(206, content_range=f"bytes {digits}-1/*"),
        status(200, content_length=digits),
        status(206, content_range=f"bytes 0-1/{digits}"),
    ]
    server.default = range_ignored
    # The body that the second answer promises never ends.
    fetch(timeout=0.5)
    assert len(server.ranges) == 4


def test_a_refusal_leaves_what_had_arrived(server, fetch):
    server.plans[NAME] = [dropped(17_000), status(403)]
    with pytest.raises(RunError, match="403 Forbidden"):
        fetch()
    assert fetch.part.read_bytes() == server.files[NAME][:17_000]
    fetch()
    assert server.ranges == ["bytes=17000-"]


@pytest.mark.parametrize("answer", [other_bytes, unannounced_other_bytes])
def test_other_bytes_never_get_the_name(server, fetch, answer):
    server.default = answer
    expected, got = blob_id(server.files[NAME]), blob_id(server.files[NAME][::-1])
    with pytest.raises(RunError, match=rf"git blob {got}, expected {expected} \(failures in a row: 3\)"):
        fetch(retries=2)
    assert not fetch.path.exists()
    assert (len(server.ranges), fetch.waits) == (3, [1, 2])
    server.default = range_ignored
    fetch(retries=0)


def test_a_useless_part_excuses_one_failure_alone(server, fetch):
    fetch.part.write_bytes(b"?" * 100)
    server.default = other_bytes
    with pytest.raises(RunError, match="failures in a row: 1"):
        fetch(retries=0)
    assert server.ranges == ["bytes=100-", None]


def test_a_file_is_on_the_disk_before_it_gets_its_name(fetch, monkeypatch):
    named = []
    monkeypatch.setattr(download.os, "fsync", lambda _: named.append(fetch.path.exists()))
    fetch()
    assert named == [False]


def test_another_file_of_the_name_is_replaced_by_the_original_alone(server, fetch, capsys):
    fetch.path.write_bytes(b"my own notes")
    server.plans[NAME] = [other_bytes]
    with pytest.raises(RunError):
        fetch(retries=0)
    assert fetch.path.read_bytes() == b"my own notes"
    assert f"{fetch.path} is not the original" in capsys.readouterr().err
    fetch()


def test_a_part_beside_the_original_is_cleared_away(server, fetch):
    fetch.path.write_bytes(server.files[NAME])
    fetch.part.write_bytes(b"left over")
    assert not fetch().fetched
    assert server.ranges == []


def test_failures_count_in_a_row_until_much_has_arrived(server, fetch, monkeypatch):
    drops = [dropped(10_000) for _ in range(3)]
    server.plans[NAME] = list(drops)
    with pytest.raises(RunError, match=r"failures in a row: 2\); 20,000 bytes are kept"):
        fetch(retries=1)
    fetch.part.unlink()
    monkeypatch.setattr(download, "PROGRESS_BYTES", 10_000)
    server.plans[NAME] = list(drops)
    fetch(retries=1)
    assert fetch.waits == [1, 1, 1]


def test_bytes_that_come_a_second_time_are_no_progress(server, fetch, monkeypatch):
    monkeypatch.setattr(download, "PROGRESS_BYTES", 10_000)
    server.default = other_bytes
    server.plans[NAME] = [dropped(20_000), wrong_range, dropped(20_000), wrong_range]
    with pytest.raises(RunError, match="failures in a row: 4"):
        fetch(retries=3)
    assert fetch.waits == [1, 2, 4]


def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_host_out_of_reach_is_said_at_once_and_in_one_line(server, fetch, monkeypatch):
    half = server.files[NAME][:20_000]
    fetch.part.write_bytes(half)
    with pytest.raises(
        RunError, match=r"^127\.0\.0\.1 cannot be reached \(Connection refused\); tried http"
    ) as refused:
        fetch(base_url=f"http://127.0.0.1:{closed_port()}/mirror")
    assert str(refused.value).endswith(f"put it to {fetch.path}")
    assert "\n" not in str(refused.value)
    assert "--base-url" in str(refused.value)

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(RunError, match=r"^corpus\.example cannot be reached \(Name or service not known\)"):
            fetch(base_url="http://corpus.example")
    assert fetch.waits == []
    assert fetch.part.read_bytes() == half
    fetch()
    assert server.ranges == ["bytes=20000-"]


def test_a_proxy_that_is_in_the_way_is_named(server, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(RunError, match=r"cannot be reached \(Connection refused, through the proxy"):
        fetch(base_url="http://corpus.example")
    # The server knows no tunnels.
    monkeypatch.setenv("https_proxy", server.url)
    with pytest.raises(RunError, match=r"Tunnel connection failed: 501 .*, through the proxy"):
        fetch(base_url="https://corpus.example", retries=0)


def test_a_host_that_had_answered_is_tried_again(server, fetch):
    server.plans[NAME] = [gone]
    with pytest.raises(RunError, match=r"Connection refused \(failures in a row: 3\); 20,000 bytes are kept"):
        fetch(retries=2)
    assert fetch.waits == [1, 2]
    assert fetch.part.read_bytes() == server.files[NAME][:20_000]


def test_two_downloads_into_one_folder_do_not_meet(server, tmp_path):
    blob_ids = {department: blob_id(server.files[name]) for department, name in NAMES.items()}
    first = download_corpus(tmp_path, base_url=server.url, blob_ids=blob_ids)
    next(first)
    with pytest.raises(RunError, match=f"another download into {tmp_path} is running"):
        next(download_corpus(tmp_path, base_url=server.url, blob_ids=blob_ids))
    assert len(list(first)) == 5
    assert len(list(download_corpus(tmp_path, base_url=server.url, blob_ids=blob_ids))) == 6


def test_a_disk_that_takes_no_more_is_named_and_keeps_what_came(server, fetch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(RunError, match=r"\.part cannot be written: File too large; 30,000 bytes are kept"):
            fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    fetch()
    assert server.ranges == ["bytes=30000-"]


def test_full_disk_is_named(fetch):
    fetch.part.symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"\.part cannot be written: No space left on device"):
        fetch()


def test_progress_counts_bytes_and_what_was_there(server, fetch, monkeypatch):
    bars = []

    class Bar(download.tqdm):
        def __init__(self, **options):
            bars.append([options["desc"], options["initial"], options["total"], options["unit"], 0])
            super().__init__(**options)

        def update(self, n=1):
            bars[-1][-1] += n

    monkeypatch.setattr(download, "tqdm", Bar)
    server.plans[NAME] = [dropped(17_000)]
    fetch()
    assert bars == [
        ["内科5000-33000.csv", 0, SIZE, "B", 17_000],
        ["内科5000-33000.csv", 17_000, SIZE, "B", SIZE - 17_000],
    ]


def test_a_host_name_that_cannot_be_one_is_not_tried_again(fetch):
    with pytest.raises(RunError, match=r"http://a\.\.b/.* cannot be fetched: .*label empty or too long"):
        fetch(base_url="http://a..b")
    assert fetch.waits == []


@pytest.mark.parametrize(
    "url",
    ["", "corpus", "ftp://host/x", "file:///corpus", "http://", "http://host:port", "http://host?x=1", "http://h#x"],
)
def test_a_base_url_that_is_none_is_refused(fetch, url):
    with pytest.raises(UsageError, match="the base URL must be http://HOST/PATH"):
        fetch(base_url=url)


def test_an_output_that_is_no_folder_is_refused(server, fetch, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for output in (file, file / "below"):
        with pytest.raises(UsageError, match=f"the output {output} cannot be made: {file} is a file"):
            next(download_corpus(output, base_url=server.url))
    fetch.path.mkdir()
    with pytest.raises(UsageError, match="is no file; move it away"):
        fetch()
    assert server.paths == []
