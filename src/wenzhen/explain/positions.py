"""What positions carry: with sinusoids, a step of k is the same rotation T^(k) wherever it starts (appendix B)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenSinusoidalPositions

# A float32 table is off by 6e-8 at most, its rotation by no more than thrice that.
TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Fit:
    """How near orthogonal matrices come to a learned table's steps.

    Attributes:
        offsets: some k.
        residuals: for each of them, ‖T·E_t − E_(t+k)‖ / ‖E_(t+k)‖ over all t for the best of all orthogonal T.
        sinusoidal_residuals: the same for a sinusoidal table of the same shape.
    """

    offsets: np.ndarray
    residuals: np.ndarray
    sinusoidal_residuals: np.ndarray


@dataclass(frozen=True, slots=True)
class Positions:
    """A position table and how far it lets one position be computed from another.

    Attributes:
        table: `[positions, d_model]`, float64.
        rotation_errors: the largest error of T^(k)·E_t − E_(t+k) over all t, for each k; None for a learned table,
            which has no such rotation.
        fit: the best that can be had instead; None for sinusoids.
        products: least, mean and largest E_t·E_(t+k) over all t, for each k, `[3, positions]`.
    """

    table: np.ndarray
    rotation_errors: np.ndarray | None
    fit: Fit | None
    products: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Return the numbers that the page tells."""
        positions, d_model = self.table.shape
        summary: dict[str, Any] = {
            "kind": "learned" if self.rotation_errors is None else "sinusoidal",
            "positions": positions,
            "d_model": d_model,
            "product_spread": float((self.products[2] - self.products[0]).max()),
            "product_at_0": float(self.products[1, 0]),
            "product_falls_until": self.product_falls_until,
        }
        if self.rotation_errors is not None:
            largest = float(self.rotation_errors.max())
            summary |= {"offsets": positions - 1, "largest_rotation_error": largest, "exact": largest < TOLERANCE}
        if self.fit is not None:
            summary |= {
                "smallest_fit_residual": float(self.fit.residuals.min()),
                "largest_fit_residual": float(self.fit.residuals.max()),
            }
        return summary

    @property
    def product_falls_until(self) -> int:
        """The first distance from which the mean product rises, or the largest one there is."""
        rises = np.flatnonzero(np.diff(self.products[1]) > 0)
        return int(rises[0]) if rises.size else len(self.table) - 1


def measure_positions(module: nn.Module | None = None) -> Positions:
    """Check appendix B on a position table.

    Args:
        module: the positions of a model's encoder or decoder; None for the thesis'.
    """
    module = WenzhenSinusoidalPositions(WenzhenConfig()) if module is None else module
    table = as_table(module)
    is_sinusoidal = isinstance(module, WenzhenSinusoidalPositions)
    return Positions(
        table=table,
        rotation_errors=rotation_errors(table) if is_sinusoidal else None,
        fit=None if is_sinusoidal else fit_rotations(table),
        products=products_by_offset(table),
    )


def as_table(module: nn.Module) -> np.ndarray:
    """Return the vectors of all positions, `[positions, d_model]`, as the model looks them up, in float64."""
    return module.weight.detach().to("cpu", torch.float64).numpy()


def angular_speeds(d_model: int) -> np.ndarray:
    """Return λ_m = 10000^(−2m/d), radians a position, of each pair of sine and cosine, `[d_model / 2]`."""
    return 10000.0 ** (-np.arange(0, d_model, 2) / d_model)


def rotation(d_model: int, offset: int) -> np.ndarray:
    """Return T^(k), `[d_model, d_model]`: blocks [[cos λ_m·k, sin λ_m·k], [−sin λ_m·k, cos λ_m·k]] on the diagonal."""
    angles = angular_speeds(d_model) * offset
    even = np.arange(0, d_model, 2)
    matrix = np.zeros((d_model, d_model))
    matrix[even, even] = matrix[even + 1, even + 1] = np.cos(angles)
    matrix[even, even + 1] = np.sin(angles)
    matrix[even + 1, even] = -np.sin(angles)
    return matrix


def rotation_errors(table: np.ndarray) -> np.ndarray:
    """Return the largest |T^(k)·E_t − E_(t+k)| over all t and dimensions, for every k from 0, `[positions]`."""
    positions, d_model = table.shape
    speeds = angular_speeds(d_model)
    # The products with T^(k), block by block: the rest of the matrix is zero.
    sines, cosines = table[:, 0::2], table[:, 1::2]
    errors = np.empty(positions)
    for k in range(positions):
        cos, sin = np.cos(speeds * k), np.sin(speeds * k)
        start_sines, start_cosines = sines[: positions - k], cosines[: positions - k]
        sine_errors = start_sines * cos + start_cosines * sin - sines[k:]
        cosine_errors = start_cosines * cos - start_sines * sin - cosines[k:]
        errors[k] = max(np.abs(sine_errors).max(), np.abs(cosine_errors).max())
    return errors


def fit_rotations(table: np.ndarray) -> Fit:
    """Fit a learned table, and sinusoids of its shape, at offsets of 1, 2, 4, … up to half the table."""
    positions, d_model = table.shape
    offsets = [2**n for n in range(positions.bit_length()) if 2**n <= max(positions // 2, 1)]
    shape = WenzhenConfig(d_model=d_model, attention_heads=1, max_position_embeddings=positions)
    tables = (table, as_table(WenzhenSinusoidalPositions(shape)))
    residuals = [np.array([best_rotation_residual(each, k) for k in offsets]) for each in tables]
    return Fit(np.array(offsets), *residuals)


def best_rotation_residual(table: np.ndarray, offset: int) -> float:
    """Fit the orthogonal T for which T·E_t is nearest to E_(t+k) (Procrustes), and return what is left, relatively."""
    start, end = table[:-offset], table[offset:]
    left, _, right = np.linalg.svd(end.T @ start)
    return float(np.linalg.norm(start @ (left @ right).T - end) / max(np.linalg.norm(end), np.finfo(float).tiny))


def products_by_offset(table: np.ndarray) -> np.ndarray:
    """Return least, mean and largest E_t·E_(t+k) over all t for each k, `[3, positions]`."""
    products = table @ table.T
    diagonals = [np.diagonal(products, k) for k in range(len(table))]
    return np.array([[d.min() for d in diagonals], [d.mean() for d in diagonals], [d.max() for d in diagonals]])
