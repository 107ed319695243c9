"""The Transformer under the laws of all families."""

from typing import Any

from model_laws import ModelLaws
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration


class TestTransformerLaws(ModelLaws):
    config_class = WenzhenConfig
    model_class = WenzhenForConditionalGeneration
    tiny = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention_heads": 4,
        "d_ff": 48,
        "max_position_embeddings": 40,
    }
    choices = {
        "norm": ("post", "pre"),
        "positions": ("sinusoidal", "learned"),
        "attention_score": ("scaled_dot", "dot", "additive", "bilinear"),
        "activation_function": ("relu", "gelu", "silu"),
        "tie_word_embeddings": (True, False),
        "attn_implementation": ("sdpa", "eager"),
    }
    shapes = {"encoder_layers": (2, 1), "decoder_layers": (2, 1)}
    attentions = {
        "encoder_attentions": "encoder_layers",
        "decoder_attentions": "decoder_layers",
        "cross_attentions": "decoder_layers",
    }
    attention_implementations = ("sdpa", "flex_attention")

    @classmethod
    def admits(cls, choices: dict[str, Any]) -> bool:
        """The other activations, on which nothing else depends, are tried with the thesis' positions and embedding."""
        usual = choices["positions"] == "sinusoidal" and choices["tie_word_embeddings"]
        if choices["activation_function"] != "relu" and not usual:
            return False
        return choices["attention_score"] == "scaled_dot" or choices["attn_implementation"] == "eager"
