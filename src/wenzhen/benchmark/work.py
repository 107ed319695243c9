"""How much a training step has to compute, and how much this machine can."""

import time

import torch

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

# Rows of the measured products: about as many as a batch has tokens.
ROWS = 4096
SECONDS = 0.5


def useful_flops(config: WenzhenConfig, source: int, target: int) -> int:
    """Count the floating-point operations that training on one pair needs, whoever does it.

    Every weight matrix costs 6 operations per weight and token it is applied to: a multiplication and an addition in
    the forward pass, and twice that in the backward pass, for the gradients of its input and of itself. With d, f and
    V for `d_model`, `d_ff` and `vocab_size`, s and t tokens:

    - an encoder layer has 4d² + 2df weights for the question's tokens;
    - a decoder layer has 4d² + 2d² + 2df for the answer's tokens, and 2d² for the question's (keys and values);
    - the output layer has dV for the answer's tokens.

    Attention costs 12·d for each query and key that see each other: 2 operations per dimension for the score and 2 for
    the weighted sum, times 3 as above. These are s² in an encoder layer, and in a decoder layer t(t + 1)/2, no key
    being later than its query, and s·t. Padding, recomputation, dropout, normalization and all else count nothing.

    Args:
        config: the model's shape.
        source: tokens of the question.
        target: tokens of the answer.
    """
    d, f = config.d_model, config.d_ff
    encoder = 6 * (4 * d * d + 2 * d * f) * source + 12 * d * source**2
    decoder = (
        6 * (6 * d * d + 2 * d * f) * target
        + 6 * 2 * d * d * source
        + 12 * d * (target * (target + 1) // 2 + source * target)
    )
    return config.encoder_layers * encoder + config.decoder_layers * decoder + 6 * d * config.vocab_size * target


def matrix_product_rate(config: WenzhenConfig, device: str, dtype: str) -> float:
    """Measure the floating-point operations per second of the feed-forward sublayers' two products, nothing else."""
    settings = {"device": device, "dtype": getattr(torch, dtype)}
    rows = torch.randn(ROWS, config.d_model, **settings)
    inner = torch.randn(config.d_model, config.d_ff, **settings)
    outer = torch.randn(config.d_ff, config.d_model, **settings)

    def run(times: int) -> float:
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(times):
            torch.mm(torch.mm(rows, inner), outer)
        synchronize(device)
        return time.perf_counter() - begin

    run(1)
    times = max(1, round(SECONDS / run(1)))
    return times * 4 * ROWS * config.d_model * config.d_ff / run(times)


def synchronize(device: str) -> None:
    """Wait for the device."""
    if device != "cpu":
        torch.accelerator.synchronize()
