"""How probable a model finds given answers, in the two means that the project reports."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

# The length to which the thesis' code padded its targets.
PADDED_LENGTH = 200


def likelihood_statistics(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum what [`likelihood_metrics`] needs over each answer.

    Args:
        logits: `[batch, target_length, vocab_size]`.
        labels: the token that each position should predict, -100 where there is none, `[batch, target_length]`.

    Returns:
        `[batch, 3]` in float64: negative log-likelihood in nats, number of real tokens, and negative log-likelihood of
        the first [`PADDED_LENGTH`] tokens.
    """
    nll = token_losses(logits, labels)
    return torch.stack((nll.sum(1), (labels != -100).sum(1).double(), nll[:, :PADDED_LENGTH].sum(1)), dim=1)


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood in nats of each label, zero where there is none, `[batch, target_length]`.

    Args:
        logits: `[batch, target_length, vocab_size]`.
        labels: -100 where there is none, `[batch, target_length]`.
    """
    losses = nn.functional.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none")
    return losses.double()


def likelihood_metrics(statistics: NDArray[np.float64]) -> dict[str, float]:
    """Turn the statistics of all answers, `[answers, 3]`, into means; see [`likelihood_values`]."""
    sums = np.append(np.asarray(statistics, dtype=np.float64).sum(axis=0), len(statistics))
    return {name: float(value) for name, value in likelihood_values(sums).items()}


def likelihood_values(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Turn sums over answers into means.

    Args:
        sums: negative log-likelihood, tokens, padded negative log-likelihood and number of answers, `[…, 4]`.

    Returns:
        `loss`: nats per real token (end of answer included); `perplexity`: its exponential; `padded_loss`: the mean
        over answers cut or padded to [`PADDED_LENGTH`] tokens where padding costs nothing, as the thesis' loss counts.
        Each has the leading axes of `sums`.
    """
    nll, tokens, padded_nll, answers = np.moveaxis(sums, -1, 0)
    loss = nll / tokens
    return {
        "loss": loss,
        # Beyond this the exponential is no float any more.
        "perplexity": np.exp(np.minimum(loss, 700.0)),
        "padded_loss": padded_nll / (answers * PADDED_LENGTH),
    }
