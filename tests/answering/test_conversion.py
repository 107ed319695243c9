"""Every choice of a model, computed by CTranslate2 and by PyTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from small_models import PAIRS, save_model_folder, small_model, small_tokenizer
from wenzhen.answering.conversion import WenzhenConverter
from wenzhen.answering.engines.ctranslate2 import CTranslate2Engine
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.export import export_model
from wenzhen.errors import UsageError

# Every pair of values of two choices stands in one row at least.
CHOICES = [
    ("post", "sinusoidal", "scaled_dot", True, "relu"),
    ("pre", "learned", "scaled_dot", False, "gelu"),
    ("post", "learned", "scaled_dot", True, "silu"),
    ("pre", "sinusoidal", "dot", True, "gelu"),
    ("post", "learned", "dot", False, "relu"),
    ("pre", "sinusoidal", "dot", False, "silu"),
    ("pre", "learned", "bilinear", True, "relu"),
    ("post", "sinusoidal", "bilinear", False, "gelu"),
    ("pre", "sinusoidal", "bilinear", False, "silu"),
]
SHAPES = [(1, 3), (3, 1)]


def engines_of(folder: Path, **config) -> tuple[PyTorchEngine, CTranslate2Engine]:
    tokenizer = small_tokenizer()
    save_model_folder(small_model(tokenizer, **config), tokenizer, folder / "model")
    export_model(folder / "model", folder / "export", "float32")
    return PyTorchEngine(folder / "model"), CTranslate2Engine(folder / "export")


def assert_equal(original: PyTorchEngine, exported: CTranslate2Engine) -> None:
    """The log-probability of every token of answers that fit, are cut and are empty, and what is written."""
    questions, answers = [*PAIRS, "疼", "药"], [*PAIRS.values(), "吃药。" * 40, ""]
    inputs, labels = (ids.to_pylist() for ids in original.encoder.pairs(questions, answers, 48, 48))
    expected = list(original.log_probabilities(inputs, labels, batch_size=3))
    actual = list(exported.log_probabilities(inputs, labels, batch_size=4))
    assert [len(row) for row in actual] == [len(ids) for ids in labels]
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=5e-5)
    assert len({round(row[0], 3) for row in expected}) > 5, "the questions make no difference"
    assert dict(exported.generate(questions)) == dict(original.generate(questions))


@pytest.mark.parametrize(("norm", "positions", "attention_score", "tie_word_embeddings", "activation"), CHOICES)
def test_log_probabilities_and_answers_are_those_of_pytorch(
    norm: str, positions: str, attention_score: str, tie_word_embeddings: bool, activation: str, tmp_path: Path
) -> None:
    original, exported = engines_of(
        tmp_path,
        norm=norm,
        positions=positions,
        attention_score=attention_score,
        tie_word_embeddings=tie_word_embeddings,
        activation_function=activation,
    )
    assert_equal(original, exported)


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), SHAPES)
def test_sides_may_be_unequally_deep(encoder_layers: int, decoder_layers: int, tmp_path: Path) -> None:
    assert_equal(*engines_of(tmp_path, encoder_layers=encoder_layers, decoder_layers=decoder_layers))


def test_additive_attention_is_refused_by_name() -> None:
    tokenizer = small_tokenizer()
    with pytest.raises(UsageError, match="attention_score is additive, which CTranslate2 cannot compute"):
        WenzhenConverter(small_model(tokenizer, attention_score="additive"), tokenizer, {})


@pytest.mark.parametrize("attention_score", ["scaled_dot", "bilinear"])
def test_converting_leaves_the_model_as_it_is(attention_score: str, tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    model = small_model(tokenizer, attention_score=attention_score)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    WenzhenConverter(model, tokenizer, {}).convert(str(tmp_path / "export"), quantization="int8")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
