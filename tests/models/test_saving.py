"""Writing a model with its code."""

import json
from pathlib import Path

import pytest

from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

CODE = ["configuration_transformer.py", "modeling_transformer.py"]


@pytest.fixture
def model() -> WenzhenForConditionalGeneration:
    return WenzhenForConditionalGeneration(
        WenzhenConfig(vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1, attention_heads=2, d_ff=8)
    )


def test_code_lies_beside_the_weights(model: WenzhenForConditionalGeneration, tmp_path: Path) -> None:
    model.config.auto_map = {"AutoModel": "foreign.Model"}
    save_with_code(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["auto_map"] == {
        "AutoConfig": "configuration_transformer.WenzhenConfig",
        "AutoModelForSeq2SeqLM": "modeling_transformer.WenzhenForConditionalGeneration",
    }
    assert sorted(path.name for path in tmp_path.glob("*.py")) == CODE
    # Whoever may read one file may read them all.
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_other_saves_write_no_code(model: WenzhenForConditionalGeneration, tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    save_with_code(model, tmp_path / "with")
    model.save_pretrained(tmp_path / "without")
    assert not list((tmp_path / "without").glob("*.py"))
    assert not WenzhenForConditionalGeneration.is_remote_code()


def test_a_save_that_fails_leaves_no_trace_in_the_classes(
    model: WenzhenForConditionalGeneration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(model, "save_pretrained", full)
    with pytest.raises(OSError, match="No space left"):
        save_with_code(model, tmp_path)
    assert not WenzhenForConditionalGeneration.is_remote_code()
