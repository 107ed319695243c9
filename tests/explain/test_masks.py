"""Figure 3.4 by hand: which key each query may see."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from wenzhen.explain.masks import Masks, measure_masks, recording, untrained_model
from wenzhen.explain.tokens import TokenizedText, tokenize
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.tokenization import load_tokenizer

PAIRS = [("咳嗽怎么办", "多喝水"), ("头痛", "休息")]


def tokenized(
    tokenizer: PreTrainedTokenizerFast, *pairs: tuple[str, str]
) -> list[tuple[TokenizedText, TokenizedText]]:
    return [(tokenize(tokenizer, question), tokenize(tokenizer, answer)) for question, answer in pairs]


@pytest.fixture(scope="module")
def model(tokenizer_folder: Path) -> WenzhenForConditionalGeneration:
    return untrained_model(load_tokenizer(tokenizer_folder))


@pytest.fixture(scope="module")
def masks(model: WenzhenForConditionalGeneration, tokenizer_folder: Path) -> Masks:
    tokenizer = load_tokenizer(tokenizer_folder)
    return measure_masks(model, tokenizer, tokenized(tokenizer, *PAIRS))


def test_labels_are_the_inputs(masks: Masks) -> None:
    assert masks.questions == [[*"咳嗽怎么办", "</s>"], [*"头痛", "</s>", "<pad>", "<pad>", "<pad>"]]
    assert masks.answers == [["<s>", *"多喝水"], ["<s>", *"休息", "</s>"]]


def test_padding_of_questions_is_hidden(masks: Masks) -> None:
    assert masks.encoder[0].all()
    assert masks.encoder[1].tolist() == [[True, True, True, False, False, False]] * 6
    assert masks.cross[0].all()
    assert masks.cross[1].tolist() == [[True, True, True, False, False, False]] * 4


def test_the_future_is_hidden(masks: Masks) -> None:
    lower = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert masks.decoder.astype(int).tolist() == [lower, lower]
    assert masks.summary()["hidden"]["decoder"] == 6 / 16


def test_padding_of_answers_is_hidden_where_asked(
    model: WenzhenForConditionalGeneration, tokenizer_folder: Path
) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    masks = measure_masks(model, tokenizer, tokenized(tokenizer, ("头痛", "多喝水。"), ("咳嗽", "休息")))
    assert masks.answers[1] == ["<s>", *"休息", "</s>", "<pad>"]
    assert masks.decoder[1, 4].all()
    assert masks.decoder_padded[1, 4].tolist() == [True, True, True, True, False]
    assert np.array_equal(masks.decoder_padded[0], masks.decoder[0])


def test_masks_of_all_layers_are_the_same(model_folder: Path) -> None:
    from wenzhen.answering.engines.pytorch import PyTorchEngine

    engine = PyTorchEngine(model_folder)
    masks = measure_masks(engine.model, engine.tokenizer, tokenized(engine.tokenizer, *PAIRS))
    recorded: dict[str, np.ndarray] = {}
    layers = {str(n): layer.self_attn for n, layer in enumerate(engine.model.model.decoder.layers)}
    labels = torch.tensor([engine.tokenizer(answer).input_ids for answer in ("多喝水", "休息。")])
    with recording(layers, recorded), torch.inference_mode():
        engine.model(input_ids=labels, labels=labels)
    assert len(recorded) > 1
    for mask in recorded.values():
        assert np.array_equal(mask, masks.decoder)


def test_hooks_are_taken_off(model: WenzhenForConditionalGeneration, masks: Masks) -> None:
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_cut_answer_gets_no_end(model: WenzhenForConditionalGeneration, tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    (question, answer), other = tokenized(tokenizer, ("头痛", "休息"), ("咳嗽", "多喝水。"))
    masks = measure_masks(model, tokenizer, [(question, answer.first(2)), other])
    assert masks.answers == [["<s>", *"休息", "<pad>", "<pad>"], ["<s>", *"多喝水。"]]
    assert masks.decoder_padded[0, 4].tolist() == [True, True, True, False, False]
