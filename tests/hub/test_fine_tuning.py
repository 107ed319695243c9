"""Beginning a run with a model from a Hub."""

from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from hub_server import Hub
from wenzhen.errors import UsageError
from wenzhen.hub.model import push_model
from wenzhen.models.loading import load_model
from wenzhen.training.pretrained import load_pretrained

NAME = "tester/doctor"


def test_a_model_is_fetched_without_its_code_and_then_taken_from_the_cache(
    client: Hub, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    push_model(model, NAME, private=False)
    pretrained = load_pretrained(NAME)
    weights = load_model(model).state_dict()
    fetched = pretrained.model.state_dict()
    assert all(torch.equal(fetched[name], weight) for name, weight in weights.items())
    assert pretrained.name == NAME
    assert not list((tmp_path / "cache").rglob("*.py"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_pretrained(NAME).model.config.d_model == pretrained.model.config.d_model


def test_a_model_that_the_hub_does_not_have(client: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=r"no model folder tester/nothing; .*nor can the Hub") as error:
        load_pretrained("tester/nothing")
    assert "\n" not in str(error.value)
