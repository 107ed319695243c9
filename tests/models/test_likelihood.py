"""The two means of the likelihood, on logits whose probabilities are known."""

import math

import numpy as np
import pytest
import torch

from wenzhen.models.likelihood import PADDED_LENGTH, likelihood_metrics, likelihood_statistics


def statistics_of(logits: torch.Tensor, labels: list[list[int]]) -> list[list[float]]:
    return likelihood_statistics(logits, torch.tensor(labels)).tolist()


@pytest.mark.parametrize("vocab_size", [2, 7, 5000])
def test_uniform_logits_cost_log_v_per_token(vocab_size):
    ((nll, tokens, padded_nll),) = statistics_of(torch.full((1, 3, vocab_size), 4.2), [[0, 1, 1]])
    assert tokens == 3
    assert nll == padded_nll == pytest.approx(3 * math.log(vocab_size), rel=1e-6)


def test_each_token_costs_its_own_negative_log_probability():
    probabilities = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], [[0.9, 0.05, 0.05], [0.3, 0.3, 0.4]]])
    statistics = statistics_of(probabilities.log(), [[1, 2], [0, 1]])
    assert statistics[0] == pytest.approx([-math.log(0.25 * 0.7), 2, -math.log(0.25 * 0.7)], rel=1e-6)
    assert statistics[1] == pytest.approx([-math.log(0.9 * 0.3), 2, -math.log(0.9 * 0.3)], rel=1e-6)


def test_missing_labels_neither_cost_nor_count():
    probabilities = torch.tensor([[[0.5, 0.5], [0.75, 0.25], [0.001, 0.999]], [[0.001, 0.999]] * 3])
    statistics = statistics_of(probabilities.log(), [[0, 1, -100], [-100, -100, -100]])
    assert statistics[0] == pytest.approx([math.log(2) + math.log(4), 2, math.log(2) + math.log(4)], rel=1e-6)
    assert statistics[1] == [0, 0, 0]


def test_half_precision_logits_are_summed_in_full_precision():
    logits = torch.zeros(1, 3000, 4, dtype=torch.bfloat16)
    ((nll, tokens, _),) = statistics_of(logits, [[1] * 3000])
    assert tokens == 3000
    assert nll == pytest.approx(3000 * math.log(4), rel=1e-6)


def test_padded_nll_stops_at_the_padded_length():
    ((nll, tokens, padded_nll),) = statistics_of(torch.zeros(1, 250, 4), [[2] * 250])
    assert PADDED_LENGTH == 200
    assert tokens == 250
    assert nll == pytest.approx(250 * math.log(4), rel=1e-6)
    assert padded_nll == pytest.approx(200 * math.log(4), rel=1e-6)


def test_padded_loss_spreads_every_answer_over_the_padded_length():
    """Two answers of 250 and 3 tokens over 4 equal characters: 203 tokens cost log 4, 400 places divide."""
    labels = torch.full((2, 250), -100)
    labels[0] = 1
    labels[1, :3] = 2
    metrics = likelihood_metrics(likelihood_statistics(torch.zeros(2, 250, 4), labels).numpy())
    assert metrics["padded_loss"] == pytest.approx(203 * math.log(4) / 400, rel=1e-6)
    assert metrics["loss"] == pytest.approx(math.log(4), rel=1e-6)


def test_corpus_loss_weighs_tokens_and_not_answers():
    metrics = likelihood_metrics(np.array([[1.0, 1, 1.0], [18.0, 9, 18.0]]))
    assert metrics["loss"] == pytest.approx(19 / 10)
    assert metrics["loss"] != pytest.approx((1 / 1 + 18 / 9) / 2)
    assert metrics["padded_loss"] == pytest.approx(19 / 400)


@pytest.mark.parametrize(("loss", "perplexity"), [(0.0, 1.0), (math.log(50), 50.0), (3.0, math.e**3)])
def test_perplexity_is_the_exponential_of_the_loss(loss, perplexity):
    metrics = likelihood_metrics(np.array([[loss * 4, 4, loss * 4]]))
    assert metrics["loss"] == pytest.approx(loss)
    assert metrics["perplexity"] == pytest.approx(perplexity)


def test_perplexity_of_a_hopeless_model_is_still_a_number():
    metrics = likelihood_metrics(np.array([[10_000.0, 1, 10_000.0]]))
    assert metrics["loss"] == 10_000
    assert math.isfinite(metrics["perplexity"])


def test_means_do_not_depend_on_the_batches():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 6, 9, generator=generator)
    labels = torch.randint(0, 9, (4, 6), generator=generator)
    labels[1, 2:] = -100
    labels[3, 5:] = -100
    whole = likelihood_statistics(logits, labels)
    parts = torch.cat([likelihood_statistics(logits[rows], labels[rows]) for rows in ([0], [1, 2, 3])])
    assert likelihood_metrics(whole.numpy()) == pytest.approx(likelihood_metrics(parts.numpy()))
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
    assert likelihood_metrics(whole.numpy())["loss"] == pytest.approx(expected, rel=1e-6)
