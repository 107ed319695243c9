"""The convolutional network under the laws of all families."""

import functools
from typing import Any

from transformers import PreTrainedModel

from model_laws import ModelLaws
from model_laws.family import Choices
from wenzhen.models.convolutional.configuration_convolutional import WenzhenConvolutionalConfig
from wenzhen.models.convolutional.modeling_convolutional import WenzhenConvolutionalForConditionalGeneration


class TestConvolutionalLaws(ModelLaws):
    config_class = WenzhenConvolutionalConfig
    model_class = WenzhenConvolutionalForConditionalGeneration
    tiny = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        # Two layers of the encoder see eight tokens on either side, so the whole question of nine.
        "kernel_size": 9,
        "max_position_embeddings": 40,
    }
    choices = {"tie_word_embeddings": (True, False)}
    shapes = {"encoder_layers": (2, 1), "decoder_layers": (2, 3), "kernel_size": (9, 3)}
    attentions = {"cross_attentions": "decoder_layers"}
    inapplicable = {
        "test_attention_implementation_agrees_with_eager": "its attention, of one head, has one implementation",
    }
    memorizing_rate = 2e-3

    @classmethod
    def new_model(cls, choices: Choices = (), noise: float = 0.1, **changes: Any) -> PreTrainedModel:
        """With less noise: a convolution adds up that of 288 inputs, and no normalization takes it away."""
        return super().new_model(choices, noise, **changes)

    @classmethod
    @functools.cache
    def memorizing_model(cls, choices: Choices = ()) -> PreTrainedModel:
        """In double precision: its logits reach 100 where sampling leaves what it learned, and roundings grow too."""
        return super().memorizing_model(choices).double()
