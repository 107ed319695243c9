"""Which models have a peer; what the peer computes is compared in tests/models/transformer."""

import pytest
import torch

from wenzhen.benchmark.peer import make_marian
from wenzhen.errors import UsageError
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

TINY = {"vocab_size": 20, "d_model": 8, "d_ff": 8, "attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "pre"}, "no norm pre, only post"),
        ({"attention_score": "dot"}, "no attention_score dot, only scaled_dot"),
        ({"attention_score": "additive"}, "no attention_score additive, only scaled_dot"),
        ({"attention_score": "bilinear"}, "no attention_score bilinear, only scaled_dot"),
        ({"layer_norm_eps": 1e-6}, "no layer_norm_eps 1e-06, only 1e-05"),
    ],
)
def test_what_marian_cannot_express_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    model = WenzhenForConditionalGeneration(WenzhenConfig(**TINY, **changes))
    with pytest.raises(UsageError, match=message):
        make_marian(model)


def test_the_peer_shares_nothing_but_mode_and_dtype() -> None:
    model = WenzhenForConditionalGeneration(WenzhenConfig(**TINY)).to(torch.bfloat16).train()
    peer = make_marian(model)
    assert peer.training
    assert {parameter.dtype for parameter in peer.parameters()} == {torch.bfloat16}
    ours = {parameter.data_ptr() for parameter in model.parameters()}
    assert ours.isdisjoint(parameter.data_ptr() for parameter in peer.parameters())
    # The tables of sines and cosines count as parameters of Marian's, though nothing trains them.
    positions = 2 * model.config.max_position_embeddings * 8
    assert peer.num_parameters() == model.num_parameters() + positions
    assert peer.num_parameters(only_trainable=True) == model.num_parameters()
