"""A model's weights as CTranslate2 holds them."""

import math

import torch
from ctranslate2.converters.converter import Converter
from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import (
    FeedForwardSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import nn
from transformers import PreTrainedTokenizerFast

from wenzhen.errors import UsageError
from wenzhen.models.families import family_of
from wenzhen.models.transformer.modeling_transformer import (
    WenzhenAttention,
    WenzhenCrossAttention,
    WenzhenForConditionalGeneration,
    WenzhenLayer,
    WenzhenSelfAttention,
    WenzhenStack,
)

# transformers' `gelu` is the exact one.
ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}


class WenzhenConverter(Converter):
    """Converts a model, which stays as it is.

    Args:
        model: on any device.
        tokenizer: its tokenizer.
        settings: what CTranslate2's config.json is to say besides.

    Raises:
        UsageError: CTranslate2 cannot compute the model.
    """

    def __init__(
        self,
        model: WenzhenForConditionalGeneration,
        tokenizer: PreTrainedTokenizerFast,
        settings: dict[str, object],
    ) -> None:
        if not isinstance(model, WenzhenForConditionalGeneration):
            family = family_of(model.config.model_type)
            raise UsageError(
                f"CTranslate2 computes Transformers alone, and this is a {family} network; use the model as it is"
            )
        if model.config.attention_score == "additive":
            raise UsageError(
                "the model's attention_score is additive, which CTranslate2 cannot compute; it takes scaled_dot, dot "
                "and bilinear: use the model as it is"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.settings = settings

    def _load(self) -> TransformerSpec:
        config = self.model.config
        spec = TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.attention_heads,
            pre_norm=config.norm == "pre",
            activation=ACTIVATIONS[config.activation_function],
        )
        fill_encoder(spec.encoder, self.model.model.encoder)
        fill_decoder(spec.decoder, self.model.model.decoder)
        spec.decoder.projection.weight = copied(self.model.lm_head.weight)
        for key, value in self.settings.items():
            spec.config.add_attribute(key, value)
        spec.config.layer_norm_epsilon = config.layer_norm_eps
        spec.config.unk_token = self.tokenizer.unk_token
        spec.config.bos_token = self.tokenizer.bos_token
        spec.config.eos_token = self.tokenizer.eos_token
        spec.config.decoder_start_token = self.tokenizer.convert_ids_to_tokens(config.decoder_start_token_id)
        vocabulary = self.tokenizer.convert_ids_to_tokens(list(range(config.vocab_size)))
        spec.register_source_vocabulary(vocabulary)
        spec.register_target_vocabulary(vocabulary)
        return spec


def fill_encoder(spec: TransformerEncoderSpec, encoder: WenzhenStack) -> None:
    """Copy the encoder."""
    spec.embeddings[0].weight = copied(encoder.embed_tokens.weight)
    fill_stack(spec, encoder)
    for layer_spec, layer in zip(spec.layer, encoder.layers, strict=True):
        fill_self_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_layer_norm)
        fill_feed_forward(layer_spec.ffn, layer)


def fill_decoder(spec: TransformerDecoderSpec, decoder: WenzhenStack) -> None:
    """Copy the decoder."""
    spec.embeddings.weight = copied(decoder.embed_tokens.weight)
    fill_stack(spec, decoder)
    for layer_spec, layer in zip(spec.layer, decoder.layers, strict=True):
        fill_self_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_layer_norm)
        fill_cross_attention(layer_spec.attention, layer.cross_attn, layer.cross_attn_layer_norm)
        fill_feed_forward(layer_spec.ffn, layer)


def fill_stack(spec: TransformerEncoderSpec | TransformerDecoderSpec, stack: WenzhenStack) -> None:
    """Copy what encoder and decoder share: positions, and the last normalization of pre-norm."""
    spec.scale_embeddings = True
    table = copied(stack.positions.weight)
    # To score an answer of full length, CTranslate2 reads one token more than it is asked for.
    spec.position_encodings.encodings = torch.cat((table, torch.zeros_like(table[:1])))
    if stack.config.norm == "pre":
        fill_norm(spec.layer_norm, stack.layer_norm)


def fill_self_attention(spec: MultiHeadAttentionSpec, attention: WenzhenSelfAttention, norm: nn.LayerNorm) -> None:
    """Copy a self-attention: query, key and value in one product."""
    width = attention.config.d_model
    weight, bias = copied(attention.qkv_proj.weight), copied(attention.qkv_proj.bias)
    weight[:width], bias[:width] = folded_query(attention, weight[:width], bias[:width])
    spec.linear[0].weight, spec.linear[0].bias = weight, bias
    fill_linear(spec.linear[1], attention.out_proj)
    fill_norm(spec.layer_norm, norm)


def fill_cross_attention(spec: MultiHeadAttentionSpec, attention: WenzhenCrossAttention, norm: nn.LayerNorm) -> None:
    """Copy a cross-attention: the query, then key and value in one product."""
    weight, bias = copied(attention.q_proj.weight), copied(attention.q_proj.bias)
    spec.linear[0].weight, spec.linear[0].bias = folded_query(attention, weight, bias)
    fill_linear(spec.linear[1], attention.kv_proj)
    fill_linear(spec.linear[2], attention.out_proj)
    fill_norm(spec.layer_norm, norm)


def folded_query(
    attention: WenzhenAttention, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Put the attention's score into the projection of its queries, as CTranslate2 knows qᵀk / √head_dim alone.

    Args:
        attention: with one of the scores dot, qᵀk, and bilinear, kᵀWq = (Wq)ᵀk; or scaled_dot, which stays.
        weight: `[d_model, d_model]`.
        bias: `[d_model]`.
    """
    score = attention.config.attention_score
    if score == "bilinear":
        heads = weight.view(-1, attention.head_dim, weight.shape[1])
        matrix = copied(attention.score_matrix)
        weight = torch.matmul(matrix, heads).flatten(0, 1)
        bias = torch.matmul(matrix, bias.view(-1, attention.head_dim, 1)).flatten()
    if score in ("dot", "bilinear"):
        root = math.sqrt(attention.head_dim)
        weight, bias = weight * root, bias * root
    return weight, bias


def fill_feed_forward(spec: FeedForwardSpec, layer: WenzhenLayer) -> None:
    """Copy a feed-forward sublayer."""
    fill_linear(spec.linear_0, layer.mlp.fc1)
    fill_linear(spec.linear_1, layer.mlp.fc2)
    fill_norm(spec.layer_norm, layer.mlp_layer_norm)


def fill_linear(spec: LinearSpec, linear: nn.Linear) -> None:
    """Copy a projection."""
    spec.weight, spec.bias = copied(linear.weight), copied(linear.bias)


def fill_norm(spec: LayerNormSpec, norm: nn.LayerNorm) -> None:
    """Copy a normalization."""
    spec.gamma, spec.beta = copied(norm.weight), copied(norm.bias)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in float32 on the CPU, which the quantization may change."""
    return tensor.detach().to("cpu", torch.float32, copy=True)
