"""The Transformer that tells departments: its numbers by hand, and what must not change them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from model_laws.family import PAD, VOCAB
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForSequenceClassification

NAMES = ["男科", "内科", "妇产科"]
LENGTHS = (7, 4, 1)
LABELS = torch.tensor([2, 0, 1])


@pytest.fixture
def model() -> WenzhenForSequenceClassification:
    torch.manual_seed(0)
    config = WenzhenConfig(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=2,
        attention_heads=4,
        d_ff=48,
        dropout=0.0,
        max_position_embeddings=16,
        id2label=dict(enumerate(NAMES)),
        label2id={name: number for number, name in enumerate(NAMES)},
    )
    made = WenzhenForSequenceClassification(config).eval()
    with torch.no_grad():
        # No bias may hide.
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def questions(padding: int = 0, side: str = "right") -> dict[str, torch.Tensor]:
    """Return questions of three lengths with so much padding behind the longest, or before it."""
    numbers = torch.Generator().manual_seed(1)
    rows = [torch.randint(4, VOCAB, (length,), generator=numbers) for length in LENGTHS]
    inputs = torch.full((len(rows), max(LENGTHS) + padding), PAD)
    mask = torch.zeros_like(inputs)
    for row, (ids, real) in zip(rows, zip(inputs, mask, strict=True), strict=True):
        place = slice(0, len(row)) if side == "right" else slice(len(ids) - len(row), None)
        ids[place], real[place] = row, 1
    return {"input_ids": inputs, "attention_mask": mask}


def test_scores_and_loss_are_those_of_a_computation_by_hand(model: WenzhenForSequenceClassification) -> None:
    inputs = questions(padding=2)
    with torch.no_grad():
        output = model(**inputs, labels=LABELS)
        states = model.encoder(**inputs).last_hidden_state.double().numpy()
    weight, bias = (p.detach().double().numpy() for p in (model.classifier.weight, model.classifier.bias))
    logits = np.array([row[:length].mean(0) @ weight.T + bias for row, length in zip(states, LENGTHS, strict=True)])
    np.testing.assert_allclose(output.logits.numpy(), logits, rtol=1e-4, atol=1e-5)
    log_probabilities = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = -log_probabilities[range(3), LABELS.numpy()]
    assert output.loss.item() == pytest.approx(losses.mean(), rel=1e-4)

    with torch.no_grad():
        # A question without a label counts for nothing; the Trainer says what a sum is to be divided by.
        some = model(**inputs, labels=torch.tensor([2, -100, 1])).loss
        shared = model(**inputs, labels=LABELS, num_items_in_batch=12).loss
        smoothed = model(**inputs, labels=LABELS, label_smoothing=0.3).loss
        nothing = model(**inputs, labels=torch.tensor([-100] * 3), num_items_in_batch=2).loss
    assert some.item() == pytest.approx((losses[0] + losses[2]) / 2, rel=1e-4)
    assert shared.item() == pytest.approx(losses.sum() / 12, rel=1e-4)
    assert smoothed.item() == pytest.approx((0.7 * losses - 0.3 * log_probabilities.mean(1)).mean(), rel=1e-4)
    assert nothing.item() == 0


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(model: WenzhenForSequenceClassification, side: str, implementation: str) -> None:
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        expected = model(**questions()).logits
        padded = model(**questions(5, side)).logits
        alone = model(questions()["input_ids"][1:2, :4]).logits
    torch.testing.assert_close(padded, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(alone, expected[1:2], rtol=1e-4, atol=1e-5)


def test_without_padding_loss_and_gradients_are_the_same_and_reach_all_weights(
    model: WenzhenForSequenceClassification,
) -> None:
    found = []
    for loss_only in (False, True):
        model.zero_grad()
        loss = model(**questions(3), labels=LABELS, loss_only=loss_only).loss
        loss.backward()
        found.append([loss, *(parameter.grad.clone() for parameter in model.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)
    assert all(gradient.abs().max() > 1e-6 for gradient in found[0][1:])


def test_a_saved_classifier_comes_back_bit_by_bit(model: WenzhenForSequenceClassification, tmp_path: Path) -> None:
    save_with_code(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["auto_map"]["AutoModelForSequenceClassification"] == (
        "modeling_transformer.WenzhenForSequenceClassification"
    )
    assert config["label2id"] == {"男科": 0, "内科": 1, "妇产科": 2}
    assert not (tmp_path / "generation_config.json").exists()
    loaded, told = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is WenzhenForSequenceClassification
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert loaded.config.id2label == dict(enumerate(NAMES))
    assert torch.equal(loaded.eval()(**questions()).logits, model(**questions()).logits)
