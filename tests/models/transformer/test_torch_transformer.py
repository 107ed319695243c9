"""The thesis' Transformer against torch.nn's encoder and decoder with the same weights."""

import math

import pytest
import torch
from peer_models import (
    ANSWER_LENGTH,
    SHAPES,
    THESIS,
    assert_near,
    batch,
    gradients,
    random_model,
    thesis_batch,
    trained_model,
)
from torch import nn

from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

NORM_PLACES = {"post": {}, "pre": {"norm": "pre"}}
ACTIVATIONS = {"relu": nn.functional.relu, "gelu": nn.functional.gelu, "silu": nn.functional.silu}
NAMES = {
    "self_attn_layer_norm": "norm1",
    "self_attn.qkv_proj.": "self_attn.in_proj_",
    "cross_attn.out_proj": "multihead_attn.out_proj",
    "mlp.fc": "linear",
}
NORMS = {
    "encoder": {"mlp_layer_norm": "norm2"},
    "decoder": {"cross_attn_layer_norm": "norm2", "mlp_layer_norm": "norm3"},
}


class TorchTransformer(nn.Module):
    """torch.nn's encoder and decoder between an embedding, a position table and an output layer of our own."""

    def __init__(self, model: WenzhenForConditionalGeneration) -> None:
        super().__init__()
        config = model.config
        pre_norm = config.norm == "pre"
        layer = {
            "d_model": config.d_model,
            "nhead": config.attention_heads,
            "dim_feedforward": config.d_ff,
            "dropout": 0.0,
            "activation": ACTIVATIONS[config.activation_function],
            "layer_norm_eps": config.layer_norm_eps,
            "batch_first": True,
            "norm_first": pre_norm,
        }
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**layer),
            config.encoder_layers,
            norm=nn.LayerNorm(config.d_model) if pre_norm else None,
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**layer),
            config.decoder_layers,
            norm=nn.LayerNorm(config.d_model) if pre_norm else None,
        )
        for side in ("encoder", "decoder"):
            self.get_submodule(side).load_state_dict(to_torch(model.state_dict(), side))
        self.embedding = nn.Parameter(model.model.shared.weight.detach().clone())
        self.register_buffer("positions", model.model.encoder.positions.weight)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding[ids] * math.sqrt(self.embedding.shape[1]) + self.positions[: ids.shape[1]]

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> torch.Tensor:
        padding = attention_mask == 0
        states = self.encoder(self.embed(input_ids), src_key_padding_mask=padding)
        causal = nn.Transformer.generate_square_subsequent_mask(decoder_input_ids.shape[1])
        output = self.decoder(
            self.embed(decoder_input_ids), states, tgt_mask=causal, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return output @ self.embedding.T


def to_torch(tensors: dict[str, torch.Tensor], side: str) -> dict[str, torch.Tensor]:
    """Give one side's weights, or their gradients, torch.nn's names, cross-attention's projections in one matrix."""
    renamed = {}
    for name, tensor in tensors.items():
        if not name.startswith(f"model.{side}.") or "embed_tokens" in name or ".kv_proj." in name:
            continue
        if ".q_proj." in name:
            tensor = torch.cat((tensor, tensors[name.replace("q_proj", "kv_proj")]))
            name = name.replace("cross_attn.q_proj.", "multihead_attn.in_proj_")
        for ours, theirs in (NAMES | NORMS[side]).items():
            name = name.replace(ours, theirs)
        # Pre-norm's last one, behind the layers.
        name = name.replace("layer_norm", "norm")
        renamed[name.removeprefix(f"model.{side}.")] = tensor
    return renamed


def run(model: WenzhenForConditionalGeneration, peer: TorchTransformer, inputs: dict[str, torch.Tensor]):
    """Logits of both; the questions are padded, the answers' ends are padding that no earlier token sees."""
    decoder_input_ids = model.prepare_decoder_input_ids_from_labels(inputs["labels"])
    theirs = peer(inputs["input_ids"], inputs["attention_mask"], decoder_input_ids)
    return model(**inputs).logits, theirs


@pytest.mark.parametrize("norm", NORM_PLACES.values(), ids=NORM_PLACES.keys())
@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("make_model", [random_model, trained_model], ids=["random", "trained"])
def test_logits_and_gradients_equal_those_of_torch(make_model, changes, norm):
    model = make_model(**norm, **changes)
    peer = TorchTransformer(model)
    logits = run(model, peer, batch())
    assert_near(*logits)
    assert logits[0].abs().max() > 2
    for candidate, own in zip((model, peer), logits, strict=True):
        candidate.zero_grad()
        nn.functional.cross_entropy(own.flatten(0, 1), batch()["labels"].flatten()).backward()
    assert_near(model.model.shared.weight.grad, peer.embedding.grad)
    for side in ("encoder", "decoder"):
        actual, expected = to_torch(gradients(model), side), gradients(peer.get_submodule(side))
        assert actual.keys() == expected.keys()
        for name, gradient in actual.items():
            assert_near(gradient, expected[name])


@pytest.mark.parametrize("norm", NORM_PLACES.values(), ids=NORM_PLACES.keys())
@torch.no_grad()
def test_torch_s_fused_encoder_sees_the_same(norm):
    """Without gradients torch.nn runs post-norm layers in one fused kernel."""
    model = random_model(**norm)
    assert_near(*run(model, TorchTransformer(model).eval(), batch()))


@pytest.mark.parametrize("norm", NORM_PLACES.values(), ids=NORM_PLACES.keys())
@torch.no_grad()
def test_the_thesis_whole_shape_equals_torch(norm):
    model = random_model(noise=0.02, **norm, **THESIS)
    ours, theirs = run(model, TorchTransformer(model), thesis_batch())
    assert ours.shape == (2, ANSWER_LENGTH, THESIS["vocab_size"])
    # The logits' standard deviation is 1.1, the largest 9; the largest difference has been 4e-6.
    assert_near(ours, theirs)
