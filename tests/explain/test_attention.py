"""Attention maps: the model's own weights, labelled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from wenzhen.answering.engines import Generated
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import UsageError
from wenzhen.explain.attention import AttentionMaps, given_answer, measure_attention, own_answer
from wenzhen.explain.drawing.attention import draw_grid


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> PyTorchEngine:
    return PyTorchEngine(model_folder)


@pytest.fixture(scope="module")
def maps(engine: PyTorchEngine) -> AttentionMaps:
    return measure_attention(engine, "痔疮怎么办？", given_answer(engine, "多喝水。"))


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
    maps = measure_attention(engine, "痔疮怎么办？", own_answer(engine, "痔疮怎么办？"))
    ((_, written),) = engine.generate(["痔疮怎么办？"])
    assert maps.generated
    assert maps.answer == written.text
    assert maps.cut == (not written.ended or len(maps.outputs) < len(written.text) + 1)
    assert maps.cross.shape[2:] == (len(maps.outputs), len(maps.source))


def test_unknown_characters_keep_their_labels(engine: PyTorchEngine) -> None:
    maps = measure_attention(engine, "痛😀龘$x$?", given_answer(engine, ""))
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
        measure_attention(engine, "痛" * 120, given_answer(engine, "休息"))
    with pytest.raises(UsageError, match="the answer has 101 tokens"):
        given_answer(engine, "痛" * 101)


@pytest.mark.parametrize(
    ("text", "ended", "outputs", "cut"),
    [
        ("多喝水", True, [*"多喝水", "</s>"], False),
        # The length limit cut it: the model wrote no end. The model has 96 positions.
        ("多喝水", False, [*"多喝水"], True),
        ("痛" * 95, True, [*"痛" * 95, "</s>"], False),
        ("痛" * 96, True, [*"痛" * 96], True),
        ("痛" * 97, False, [*"痛" * 96], True),
        ("", False, ["</s>"], True),
    ],
)
def test_own_answer_ends_where_the_model_ended_it(
    engine: PyTorchEngine,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    ended: bool,
    outputs: list[str],
    cut: bool,
) -> None:
    monkeypatch.setattr(engine, "generate", lambda questions: iter([(0, Generated(text, ended))]))
    answer = own_answer(engine, "头痛怎么办？")
    assert (answer.tokens.labels, answer.cut) == (outputs, cut)
    maps = measure_attention(engine, "头痛怎么办？", answer)
    assert maps.outputs == outputs
    assert maps.inputs == ["<s>", *outputs[:-1]]


@pytest.mark.parametrize("tokens", [1, 30, 100])
def test_labels_can_be_read_at_twice_the_size(tokens: int) -> None:
    labels = ["痛"] * tokens
    figure = draw_grid(np.full((1, 2, tokens, tokens), 0.5), labels, labels, "名")
    left = figure.axes[0]
    for axis in (left.xaxis, left.yaxis):
        shown = axis.get_ticklabels()
        assert [text.get_text() for text in shown] == labels
        # A point is 4/3 of a CSS pixel.
        assert all(2 * text.get_fontsize() * 4 / 3 >= 9 for text in shown)
