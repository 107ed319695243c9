"""Appendix A: softmax, its Jacobian and the gradient through it, against autograd."""

import math

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from wenzhen.explain import saturation
from wenzhen.explain.saturation import (
    KINDS,
    Saturation,
    attentions_of,
    gradients_around_softmax,
    measure_gradients,
    measure_saturation,
    scores_scaled,
    softmax_curve,
    softmax_jacobian,
)
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration


def tiny_config(**settings: object) -> WenzhenConfig:
    shape = dict(vocab_size=50, d_model=16, attention_heads=4, d_ff=16, encoder_layers=2, decoder_layers=1)
    return WenzhenConfig(**{**shape, "max_position_embeddings": 40, **settings})


def tiny_model(**settings: object) -> WenzhenForConditionalGeneration:
    torch.manual_seed(0)
    model = WenzhenForConditionalGeneration(tiny_config(dropout=0.0, **settings)).eval()
    model.set_attn_implementation("eager")
    return model


def test_jacobian_is_that_of_autograd() -> None:
    scores = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = jacobian(lambda x: torch.softmax(x, 0), scores)
    assert torch.allclose(softmax_jacobian(torch.softmax(scores, 0)), expected, atol=1e-12)


def test_jacobian_by_hand() -> None:
    # p = (1/4, 3/4): p₁(1 − p₁) = 3/16, −p₁p₂ = −3/16.
    expected = torch.tensor([[3.0, -3.0], [-3.0, 3.0]]) / 16
    assert torch.equal(softmax_jacobian(torch.tensor([0.25, 0.75])), expected)


def test_softmax_saturates_as_scores_grow() -> None:
    curve = softmax_curve(64, "scaled_dot", (1e-3, 1.0, 8.0, 64.0))
    assert curve.largest_probability[0] == pytest.approx(1 / 64, rel=0.01)
    # Of 64 equal probabilities: √Σ(p − p²)² over the diagonal and p² off it.
    uniform = math.sqrt(64 * (1 / 64 - 1 / 64**2) ** 2 + 64 * 63 / 64**4)
    assert curve.jacobian_norm[0] == pytest.approx(uniform, rel=0.01)
    assert np.all(np.diff(curve.largest_probability) > 0)
    assert curve.largest_probability[-1] > 0.999
    assert curve.jacobian_norm[-1] < 1e-4


@pytest.mark.parametrize("head_dim", [16, 64])
def test_plain_scores_are_scaled_ones_times_the_root(head_dim: int) -> None:
    plain = softmax_curve(head_dim, "dot", (1.0,))
    scaled = softmax_curve(head_dim, "scaled_dot", (math.sqrt(head_dim),))
    assert plain.largest_probability == pytest.approx(scaled.largest_probability, rel=1e-5)
    assert plain.jacobian_norm == pytest.approx(scaled.jacobian_norm, rel=1e-4)


def test_gradient_below_the_softmax_is_that_of_autograd() -> None:
    scores = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1), requires_grad=True)
    weights = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(2))
    probabilities = torch.softmax(scores, -1)
    probabilities.retain_grad()
    (probabilities * weights).sum().backward()
    above, below = gradients_around_softmax(probabilities)
    assert torch.allclose(above.float(), weights.norm(dim=-1))
    assert torch.allclose(below.float(), scores.grad.norm(dim=-1), atol=1e-6)


def test_model_without_the_division_is_the_dot_score() -> None:
    scaled, plain = tiny_model(), tiny_model(attention_score="dot")
    plain.load_state_dict(scaled.state_dict())
    ids = torch.randint(4, 50, (2, 3, 9), generator=torch.Generator().manual_seed(0))
    rows = measure_gradients(plain, *ids, 1.0)
    assert np.array(measure_gradients(scaled, *ids, 2.0)) == pytest.approx(np.array(rows), rel=1e-3)


def test_query_gradient_is_that_of_the_query_rows() -> None:
    model = tiny_model()
    ids = torch.randint(4, 50, (2, 3, 9), generator=torch.Generator().manual_seed(0))
    rows = measure_gradients(model, *ids, 1.0)
    model.zero_grad()
    model(input_ids=ids[0], labels=ids[1]).loss.backward()
    attention = model.model.encoder.layers[1].self_attn
    assert rows[1][3] == pytest.approx(attention.qkv_proj.weight.grad[:16].norm().item(), rel=1e-4)
    assert rows[-1][3] == pytest.approx(
        model.model.decoder.layers[0].cross_attn.q_proj.weight.grad.norm().item(), rel=1e-4
    )


def test_scales_go_back() -> None:
    attentions = [attention for kind in KINDS for attention in attentions_of(tiny_model(), kind)]
    with scores_scaled(attentions, 3.0):
        assert {attention.scaling for attention in attentions} == {1.5}
    assert {attention.scaling for attention in attentions} == {0.5}


def test_measurement_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturation, "MODEL_SCALES", (0.25, 1.0, 256.0))
    before = torch.get_rng_state()
    measured = measure_saturation(tiny_config(attention_score="additive", dropout=0.5))
    assert torch.equal(torch.get_rng_state(), before)
    # √(16 / 4) = 2 is put between the given scales.
    assert measured.model_scales.tolist() == [0.25, 1.0, 2.0, 256.0]
    names = [(curve.attention, curve.layer) for curve in measured.gradients]
    assert names == [("encoder", 1), ("encoder", 2), ("decoder", 1), ("cross", 1)]
    for curve in measured.gradients:
        assert curve.largest_probability[0] < curve.largest_probability[-1]
        assert curve.passed[-1] < curve.passed[0] / 10
        assert curve.starved[0] < curve.starved[-1]
    summary = measured.summary()
    assert summary["first_encoder_layer"]["passed"]["dot"] == measured.gradients[0].passed[2]
    assert summary["head_dim"] == 4
    assert summary["model_score"] == "additive"
    assert summary["told_head_dims"] == [16, 256]


@pytest.mark.parametrize(("d_model", "told"), [(64, [16, 256]), (192, [64, 256]), (1024, [256])])
def test_told_sizes_are_the_nearest_and_the_largest(d_model: int, told: list[int]) -> None:
    shape = tiny_config(d_model=d_model)
    assert Saturation("scaled_dot", np.array([1.0]), [], shape, np.array([1.0]), []).told_head_dims == told
