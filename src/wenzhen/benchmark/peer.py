"""The peer: transformers' MarianMTModel, the same post-norm Transformer by other hands."""

import torch
from transformers import MarianConfig, MarianMTModel

from wenzhen.errors import UsageError
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

# What Marian's code takes for granted.
FIXED = {"norm": "post", "attention_score": "scaled_dot", "layer_norm_eps": 1e-5}
RENAMED = {
    "cross_attn": "encoder_attn",
    "mlp_layer_norm": "final_layer_norm",
    "mlp.": "",
    ".positions.": ".embed_positions.",
}
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "kv_proj": ("k_proj", "v_proj")}


def make_marian(model: WenzhenForConditionalGeneration) -> MarianMTModel:
    """Build a MarianMTModel that computes what a model of ours computes.

    Its position tables are ours, so sines and cosines stand in our order. Marian never trains them, and counts
    padding as positions: questions must be padded on the right.

    Args:
        model: any whose config [`check_expressible`] lets pass.

    Returns:
        The peer with a copy of the weights, of the same dtype, on the same device, in the same mode.

    Raises:
        UsageError: Marian cannot express the model.
    """
    check_expressible(model.config)
    marian = MarianMTModel(marian_config(model.config)).to(model.device, model.dtype)
    weights = to_marian(model.state_dict())
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = model.get_submodule(f"model.{side}.positions").weight
    weights["final_logits_bias"] = torch.zeros_like(marian.final_logits_bias)
    marian.load_state_dict(weights)
    return marian.train(model.training)


def check_expressible(config: WenzhenConfig) -> None:
    """Refuse what MarianMTModel has no setting for.

    Raises:
        UsageError: it names the setting.
    """
    for name, value in FIXED.items():
        if getattr(config, name) != value:
            raise UsageError(
                f"MarianMTModel has no {name} {getattr(config, name)}, only {value}: there is no peer of this model"
            )


def marian_config(config: WenzhenConfig) -> MarianConfig:
    """Return the same shape, rates and special tokens by Marian's names."""
    return MarianConfig(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.attention_heads,
        decoder_attention_heads=config.attention_heads,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        max_position_embeddings=config.max_position_embeddings,
        activation_function=config.activation_function,
        scale_embedding=True,
        share_encoder_decoder_embeddings=config.tie_word_embeddings,
        tie_word_embeddings=config.tie_word_embeddings,
        dropout=config.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        # Otherwise every answer would end with token 0 at the length limit.
        forced_eos_token_id=None,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def to_marian(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give weights, or their gradients, Marian's names, and cut the fused projections apart.

    Args:
        tensors: by the names of a [`WenzhenForConditionalGeneration`].

    Returns:
        Views of the same tensors.
    """
    renamed = {}
    for name, tensor in tensors.items():
        for ours, theirs in RENAMED.items():
            name = name.replace(ours, theirs)
        fused = next((fused for fused in FUSED if f".{fused}." in name), None)
        if fused is None:
            renamed[name] = tensor
            continue
        parts = FUSED[fused]
        for part, piece in zip(parts, tensor.chunk(len(parts)), strict=True):
            renamed[name.replace(fused, part)] = piece
    return renamed
