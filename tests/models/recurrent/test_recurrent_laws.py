"""The recurrent network under the laws of all families."""

from typing import Any

import torch

from model_laws import ModelLaws
from wenzhen.models.recurrent.configuration_recurrent import WenzhenRecurrentConfig
from wenzhen.models.recurrent.modeling_recurrent import WenzhenRecurrentForConditionalGeneration

FIXED_SIZE = "a recurrent state has a fixed size in every cache"
FUSED_CELLS = "torch.compile breaks its graph at PyTorch's fused recurrent cells"


class TestRecurrentLaws(ModelLaws):
    config_class = WenzhenRecurrentConfig
    model_class = WenzhenRecurrentForConditionalGeneration
    tiny = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 40}
    choices = {
        "cell": ("lstm", "gru", "rnn"),
        "attention_score": ("scaled_dot", "dot", "additive", "bilinear", "none"),
        "bidirectional": (True, False),
    }
    shapes = {"encoder_layers": (2, 1), "decoder_layers": (2, 1), "tie_word_embeddings": (True, False)}
    attentions = {"cross_attentions": lambda config: int(config.attention_score != "none")}
    memorizing_rate = 1e-2
    inapplicable = {
        "test_generation_with_a_static_cache_needs_no_cache": FIXED_SIZE,
        "test_answers_in_pieces_in_a_static_cache_equal_answers_at_once": FIXED_SIZE,
        "test_attention_implementation_agrees_with_eager": "there is one way to attend step by step",
        "test_model_compiles_into_one_graph": FUSED_CELLS,
        "test_compiled_model_takes_other_shapes": FUSED_CELLS,
    }

    @classmethod
    def admits(cls, choices: dict[str, Any]) -> bool:
        return choices["bidirectional"] or (choices["cell"], choices["attention_score"]) == ("gru", "none")

    @classmethod
    def read_by_encoder(cls, choices: dict[str, Any], real: torch.Tensor) -> torch.Tensor:
        """One way, each token depends on those before it alone."""
        every = real.expand(len(real), -1)
        return every if choices["bidirectional"] else every.tril()

    @classmethod
    def read_by_decoder(cls, choices: dict[str, Any], real: torch.Tensor) -> torch.Tensor:
        """Without attention, it is told nothing but where each direction of the encoder ended."""
        if choices["attention_score"] != "none":
            return real
        ends = torch.zeros_like(real)
        places = real.nonzero().flatten()
        ends[places[-1]] = True
        if choices["bidirectional"]:
            ends[places[0]] = True
        return ends
