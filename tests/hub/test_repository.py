"""What is refused before anything is pushed, whatever it is."""

from typing import Any

import pytest
from huggingface_hub import HfApi, constants

from hub_server import Account, Hub
from wenzhen.errors import RunError, UsageError
from wenzhen.hub.repository import check_push, matches

NAME = "tester/consultations"


@pytest.mark.parametrize(
    "name",
    ["consultations", "a/b/c", "tester/", "/name", "tester/a--b", "tester/a.git", "tester/a b", "测试/问诊"],
)
def test_malformed_name(client: Hub, name: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        check_push(name, "model")
    assert not client.requests


def test_no_token(client: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UsageError, match=r"without a token; .*`hf auth login`, or set HF_TOKEN"):
        check_push(NAME, "dataset")
    assert not client.requests


def test_wrong_token(client: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(UsageError, match=r"refuses the token \(HTTP 401: .*\); log in with `hf auth login`"):
        check_push(NAME, "dataset")


def test_token_that_only_reads(client: Hub) -> None:
    client.accounts["hf_test"] = Account("tester", role="read")
    with pytest.raises(UsageError, match="may only read"):
        check_push(NAME, "dataset")


@pytest.mark.parametrize(
    "answer", [{}, {"name": None}, [], {"name": "tester", "orgs": [None]}, {"name": "t", "auth": 5}]
)
def test_an_account_without_a_name_is_one_line(client: Hub, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(HfApi, "whoami", lambda _: answer)
    with pytest.raises(RunError, match=f"{client.url} does not tell whose the token is"):
        check_push(NAME, "dataset")


def test_a_token_of_an_untold_role_is_left_to_the_attempt(client: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HfApi, "whoami", lambda _: {"name": "tester", "auth": None, "orgs": None})
    check_push(NAME, "dataset")


def test_switched_off(client: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE is set"):
        check_push(NAME, "model")
    assert not client.requests


def test_unreachable(client: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody listens on a port that was just given back.
    with Hub() as closed:
        pass
    monkeypatch.setattr(constants, "ENDPOINT", closed.url)
    with pytest.raises(RunError, match=closed.url) as caught:
        check_push(NAME, "dataset")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "pattern", "matching"),
    [
        ("figures/loss.png", "figures/*.png", True),
        ("figures/old/loss.png", "figures/*.png", False),
        ("modeling.py", "*.py", True),
        ("scripts/mine.py", "*.py", False),
        ("data/train-00000-of-00001.parquet", "data/train-*", True),
        ("data/training.txt", "data/train-*", False),
    ],
)
def test_a_star_stays_within_its_folder(path: str, pattern: str, matching: bool) -> None:
    assert matches(path, pattern) is matching
