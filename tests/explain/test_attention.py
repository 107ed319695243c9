"""Attention maps: the model's own weights, labelled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import UsageError
from wenzhen.explain.attention import AttentionMaps, measure_attention


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> PyTorchEngine:
    return PyTorchEngine(model_folder)


@pytest.fixture(scope="module")
def maps(engine: PyTorchEngine) -> AttentionMaps:
    return measure_attention(engine, "痔疮怎么办？", "多喝水。")


def test_labels_follow_the_tokens(maps: AttentionMaps) -> None:
    assert maps.source == [*"痔疮怎么办？", "</s>"]
    assert maps.inputs == ["<s>", *"多喝水。"]
    assert maps.outputs == [*"多喝水。", "</s>"]


def test_rows_sum_to_one_and_hold_no_future(maps: AttentionMaps) -> None:
    for weights in (maps.encoder, maps.decoder, maps.cross):
        assert weights.sum(-1) == pytest.approx(np.ones(weights.shape[:-1]), abs=1e-6)
    assert np.all(np.triu(maps.decoder, 1) == 0)
    assert maps.alignment.sum(-1) == pytest.approx(np.ones(5), abs=1e-6)


def test_weights_are_the_models(engine: PyTorchEngine, maps: AttentionMaps) -> None:
    tokenizer = engine.tokenizer
    start = tokenizer.bos_token_id
    inputs = torch.tensor([tokenizer("痔疮怎么办？").input_ids])
    answer = torch.tensor([[start, *tokenizer("多喝水。").input_ids[:-1]]])
    engine.model.set_attn_implementation("eager")
    with torch.inference_mode():
        outputs = engine.model(input_ids=inputs, decoder_input_ids=answer, output_attentions=True)
    for weights, ours in (
        (outputs.encoder_attentions, maps.encoder),
        (outputs.decoder_attentions, maps.decoder),
        (outputs.cross_attentions, maps.cross),
    ):
        assert len(weights) == len(ours)
        for layer, expected in zip(ours, weights, strict=True):
            assert layer == pytest.approx(expected[0].numpy(), abs=1e-6)


def test_own_answer_is_what_the_model_writes(engine: PyTorchEngine) -> None:
    maps = measure_attention(engine, "痔疮怎么办？")
    ((_, written),) = engine.generate(["痔疮怎么办？"])
    assert maps.generated
    assert maps.answer == written.text
    assert maps.cut == (not written.ended or len(maps.outputs) < len(written.text) + 1)
    assert maps.cross.shape[2:] == (len(maps.outputs), len(maps.source))


def test_unknown_characters_keep_their_labels(engine: PyTorchEngine) -> None:
    maps = measure_attention(engine, "痛😀龘$x$?", "")
    assert maps.source == [*"痛😀龘$x$?", "</s>"]
    assert maps.inputs == ["<s>"]
    assert maps.outputs == ["</s>"]


def test_evenness_by_hand() -> None:
    # One layer and head: a row of (1/2, 1/2) has entropy log 2, one of (1, 0) none.
    cross = np.array([[[[0.5, 0.5], [1.0, 0.0]]]])
    own = np.ones((1, 1, 2, 2)) / 2
    maps = AttentionMaps("问", "答", False, False, ["问", "。"], ["<s>", "答"], ["答", "。"], own, own, cross)
    assert maps.evenness == pytest.approx([0.5])
    assert maps.summary()["looks_most_at"] == [["答", "问"], ["。", "问"]]


def test_long_texts_are_refused(engine: PyTorchEngine) -> None:
    with pytest.raises(UsageError, match="the question has 120 tokens; a figure of this model shows at most 95"):
        measure_attention(engine, "痛" * 120)
    with pytest.raises(UsageError, match="the answer has 101 tokens"):
        measure_attention(engine, "痛", "痛" * 101)
