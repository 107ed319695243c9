"""Appendix B: a step is a rotation, by hand in two and four dimensions, and on the model's own table."""

import math

import numpy as np
import pytest
import torch

from wenzhen.explain.drawing.positions import draw_rotation
from wenzhen.explain.positions import (
    TOLERANCE,
    angular_speeds,
    as_table,
    best_rotation_residual,
    measure_positions,
    products_by_offset,
    rotation,
    rotation_errors,
)
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenLearnedPositions, WenzhenSinusoidalPositions


def positions(kind: type[torch.nn.Module], d_model: int, length: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return kind(WenzhenConfig(d_model=d_model, attention_heads=1, max_position_embeddings=length))


def test_rotation_in_two_dimensions_by_hand() -> None:
    # λ = 1; sin(t + 3) = cos 3 · sin t + sin 3 · cos t, cos(t + 3) = −sin 3 · sin t + cos 3 · cos t.
    expected = [[math.cos(3), math.sin(3)], [-math.sin(3), math.cos(3)]]
    assert rotation(2, 3) == pytest.approx(np.array(expected))


def test_rotation_in_four_dimensions_by_hand() -> None:
    # λ = 1 and 10000^(−2/4) = 1/100.
    assert angular_speeds(4) == pytest.approx([1.0, 0.01])
    c, s, cc, ss = math.cos(5), math.sin(5), math.cos(0.05), math.sin(0.05)
    expected = [[c, s, 0, 0], [-s, c, 0, 0], [0, 0, cc, ss], [0, 0, -ss, cc]]
    assert rotation(4, 5) == pytest.approx(np.array(expected))


def test_rotations_are_orthogonal_and_add_up() -> None:
    assert rotation(16, 7) @ rotation(16, 7).T == pytest.approx(np.eye(16), abs=1e-12)
    assert rotation(16, 3) @ rotation(16, 4) == pytest.approx(rotation(16, 7), abs=1e-12)


def test_errors_are_those_of_the_whole_matrix() -> None:
    table = as_table(positions(WenzhenSinusoidalPositions, 6, 9))
    table += np.random.default_rng(0).normal(scale=0.01, size=table.shape)
    expected = [max(np.abs(rotation(6, k) @ table[t] - table[t + k]).max() for t in range(9 - k)) for k in range(9)]
    assert rotation_errors(table) == pytest.approx(np.array(expected), abs=1e-12)


def test_every_step_of_the_thesis_table_is_a_rotation() -> None:
    table = as_table(WenzhenSinusoidalPositions(WenzhenConfig()))
    errors = rotation_errors(table)
    assert errors.shape == (512,)
    assert errors.max() < TOLERANCE
    assert measure_positions().summary()["exact"]
    half = WenzhenSinusoidalPositions(WenzhenConfig(max_position_embeddings=32)).to(torch.bfloat16)
    assert not measure_positions(half).summary()["exact"]
    # A table that is off by one place in one value is caught.
    table[100, 7] += 1e-4
    assert rotation_errors(table).max() > TOLERANCE


def test_best_rotation_finds_the_one_there_is() -> None:
    table = as_table(positions(WenzhenSinusoidalPositions, 16, 40))
    assert best_rotation_residual(table, 3) < 1e-6


def test_products_depend_on_the_distance_alone() -> None:
    table = as_table(positions(WenzhenSinusoidalPositions, 8, 30))
    least, mean, largest = products_by_offset(table)
    expected = [np.cos(angular_speeds(8) * k).sum() for k in range(30)]
    assert mean == pytest.approx(np.array(expected), abs=1e-6)
    assert (largest - least).max() < 1e-5


def test_products_fall_at_first_and_then_waver() -> None:
    # In two dimensions the product is cos k: it falls until k = 3, for cos 4 > cos 3.
    measured = measure_positions(positions(WenzhenSinusoidalPositions, 2, 10))
    assert measured.summary()["product_falls_until"] == 3
    short = measure_positions(positions(WenzhenSinusoidalPositions, 2, 3))
    assert short.summary()["product_falls_until"] == 2


def test_as_many_shifts_are_drawn_as_told() -> None:
    measured = measure_positions(positions(WenzhenSinusoidalPositions, 16, 30))
    (points, _) = draw_rotation(measured).axes[-1].get_lines()
    assert len(points.get_xdata()) == measured.summary()["offsets"] == 29
    assert min(points.get_xdata()) == 1


def test_learned_positions_have_no_rotation() -> None:
    measured = measure_positions(positions(WenzhenLearnedPositions, 16, 40))
    assert measured.rotation_errors is None
    assert measured.fit is not None
    assert measured.fit.offsets.tolist() == [1, 2, 4, 8, 16]
    assert measured.fit.residuals.min() > 0.1
    assert measured.fit.sinusoidal_residuals.max() < 1e-6
    assert measured.summary()["kind"] == "learned"
    assert measured.summary()["product_spread"] > 1


def test_one_position_is_enough() -> None:
    for kind in (WenzhenSinusoidalPositions, WenzhenLearnedPositions):
        assert measure_positions(positions(kind, 4, 1)).summary()["positions"] == 1
