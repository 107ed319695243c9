"""Losses, gradients, and what must not change them."""

import functools
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer_pt_utils import LabelSmoother

from .family import BOS, PAD, Choices, ModelFamily, answer_batch, assert_near, labelled_batch, question_batch


def step(model: PreTrainedModel, seed: int = 7, **arguments: Any) -> tuple[torch.Tensor, ...]:
    """The loss of one batch under one draw of dropout, and every parameter's gradient."""
    torch.manual_seed(seed)
    loss = model(**{**labelled_batch(), **arguments}).loss
    return loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def count(calls: list[int], index: int, *_: Any) -> None:
    """Count one run of a part of a layer."""
    calls[index] += 1


class LearningLaws(ModelFamily):
    """One step of training, looked at from all sides."""

    def test_labels_are_shifted_behind_the_start_token(self, every: Choices) -> None:
        model = self.model(every)
        labels = torch.tensor([[10, 11, 3], [12, 3, -100], [13, -100, -100]])
        shifted = torch.tensor([[BOS, 10, 11], [BOS, 12, 3], [BOS, 13, PAD]])
        assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), shifted)
        question = labelled_batch()["input_ids"]
        expected = model(input_ids=question, decoder_input_ids=shifted).logits
        assert torch.equal(model(input_ids=question, labels=labels).logits, expected)

    def test_loss_is_the_mean_negative_log_likelihood_of_the_real_labels(self, every: Choices) -> None:
        batch = labelled_batch()
        outputs = self.model(every)(**batch)
        log_probabilities = outputs.logits.log_softmax(-1)
        real = [(row, column) for row, length in enumerate((7, 4, 5)) for column in range(length)]
        by_hand = -sum(log_probabilities[row, column, batch["labels"][row, column]] for row, column in real) / 16
        library = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), batch["labels"].flatten())
        assert_near(outputs.loss, by_hand, atol=2e-6)
        assert_near(outputs.loss, library, atol=2e-6)

    def test_number_of_items_divides_the_summed_loss(self, every: Choices) -> None:
        model, batch = self.model(every), labelled_batch()
        mean = model(**batch).loss
        for items in (16, 40):
            assert_near(model(**batch, num_items_in_batch=torch.tensor(items)).loss, mean * 16 / items, atol=2e-6)

    def test_parts_of_a_batch_add_up_to_its_loss_and_gradients(self, every: Choices) -> None:
        model, batch, parts = self.model(every), labelled_batch(), []
        for rows in (slice(0, 1), slice(1, 3)):
            part = {name: tensor[rows] for name, tensor in batch.items()}
            loss = model(**part, num_items_in_batch=torch.tensor(16)).loss
            parts.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
        for first, second, whole in zip(*parts, step(model), strict=True):
            assert_near(first + second, whole)

    def test_loss_reaches_every_parameter(self, every: Choices) -> None:
        """From the weights that training starts with."""
        model = self.new_model(every, noise=0.0)
        _, *gradients = step(model)
        for (name, _), gradient in zip(model.named_parameters(), gradients, strict=True):
            assert gradient is not None, name
            assert gradient.isfinite().all(), name
            assert gradient.abs().max() > 1e-6, name

    def test_loss_alone_is_the_same_loss_with_the_same_gradients(self, every: Choices) -> None:
        model = self.model(every)
        for actual, expected in zip(step(model, loss_only=True), step(model), strict=True):
            assert_near(actual, expected)

    def test_loss_alone_heeds_every_kind_of_mask(self, each: Choices) -> None:
        """Questions padded on the left or not at all, answers with masked and unlabelled tokens inside."""
        model, labels = self.model(each), labelled_batch()["labels"]
        labels[0, 2] = labels[1, 0] = -100
        answers = answer_batch("left")
        behind = labels.roll(3, 1).where(answers["decoder_attention_mask"].bool(), -100)
        with torch.no_grad():
            encoded = model.get_encoder()(**question_batch())
        cases = (
            {**question_batch("left"), "labels": labels},
            {**question_batch("none"), "attention_mask": None, "labels": labels},
            {**question_batch(), **answers, "labels": behind},
            {**question_batch(), "encoder_outputs": encoded, "labels": labels},
        )
        for case in cases:
            for actual, expected in zip(step(model, **case, loss_only=True), step(model, **case), strict=True):
                # Without the encoder, its parameters have no gradient.
                assert expected is actual is None or assert_near(actual, expected) is None

    def test_loss_alone_of_no_label_is_nothing(self, each: Choices) -> None:
        """A process without a pair takes part in a step all the same."""
        labels = torch.full((3, 7), -100)
        loss, *gradients = step(self.model(each), labels=labels, loss_only=True, num_items_in_batch=16)
        assert loss == 0
        assert all(not gradient.any() for gradient in gradients)

    def test_loss_alone_smooths_labels_as_transformers_does(self, each: Choices) -> None:
        model, labels = self.model(each), labelled_batch()["labels"]
        expected = LabelSmoother(epsilon=0.3)(model(**labelled_batch()), labels)
        loss, *gradients = step(model, loss_only=True, label_smoothing=0.3)
        assert_near(loss, expected)
        by_library = torch.autograd.grad(expected, list(model.parameters()))
        for actual, gradient in zip(gradients, by_library, strict=True):
            assert_near(actual, gradient)

    def test_dropout_is_random_in_training_alone(self, pairwise: Choices) -> None:
        model, batch = self.new_model(pairwise, dropout=0.4), labelled_batch()
        assert torch.equal(model(**batch).loss, model(**batch).loss)
        same, again, other = (step(model.train(), seed)[0] for seed in (7, 7, 8))
        assert same == again != other

    @pytest.mark.parametrize("loss_only", [False, True], ids=["logits", "loss_only"])
    def test_activation_checkpointing_changes_neither_loss_nor_gradients(
        self, pairwise: Choices, loss_only: bool
    ) -> None:
        results, runs = [], []
        for checkpointed in (False, True):
            model = self.new_model(pairwise, dropout=0.3).train()
            if checkpointed:
                model.activation_checkpointing_enable()
            layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
            calls = [0] * len(layers)
            for index, layer in enumerate(layers):
                for part in layer.children():
                    part.register_forward_pre_hook(functools.partial(count, calls, index))
            results.append(step(model, loss_only=loss_only))
            runs.append(calls)
        assert len(layers) == model.config.encoder_layers + model.config.decoder_layers
        # Every layer runs again on the way back, or nothing was checkpointed at all.
        assert all(again > once > 0 for once, again in zip(*runs, strict=True))
        for plain, recomputed in zip(*results, strict=True):
            assert_near(recomputed, plain)
