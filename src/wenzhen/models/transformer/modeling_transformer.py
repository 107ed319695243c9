"""The thesis' Transformer, and the choices that its sources name.

"Attention Is All You Need" (Vaswani et al. 2017): post-norm encoder and decoder over one embedding that both sides and
the output share, with dropout on each sublayer's output and on embedding + position, and nowhere else. A configuration
may choose pre-norm, learned positions, other attention scores and separate embeddings instead. The file reads from the
smallest part to the whole and imports nothing of this package but its configuration, because it travels to the Hub
beside the weights.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
    SequenceClassifierOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_transformer import WenzhenConfig


class WenzhenSinusoidalPositions(nn.Module):
    """The fixed table p(i, 2j) = sin(i / 10000^(2j/d)), p(i, 2j+1) = cos(same) (Vaswani et al. 2017, 3.5)."""

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__()
        self.max_positions = config.max_position_embeddings
        self.d_model = config.d_model
        self.register_buffer("weight", self.create_weight(), persistent=False)

    def create_weight(self) -> torch.Tensor:
        """Compute the table, `[max_position_embeddings, d_model]`, in float64 and round it once."""
        positions = torch.arange(self.max_positions, dtype=torch.float64, device="cpu").unsqueeze(1)
        exponents = torch.arange(0, self.d_model, 2, dtype=torch.float64, device="cpu") / self.d_model
        angles = positions / 10000.0**exponents
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).to(torch.get_default_dtype())

    def forward(self, position_ids: torch.LongTensor) -> torch.Tensor:
        """Look positions `[batch or 1, length]` up; returns `[batch or 1, length, d_model]`."""
        return self.weight[position_ids]


class WenzhenLearnedPositions(nn.Embedding):
    """A trained vector for each position (Gehring et al. 2017, 3.1)."""

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config.max_position_embeddings, config.d_model)


POSITIONS: dict[str, Callable[[WenzhenConfig], nn.Module]] = {
    "sinusoidal": WenzhenSinusoidalPositions,
    "learned": WenzhenLearnedPositions,
}


def position_ids_of(
    inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor
) -> torch.Tensor:
    """Number the newest tokens of each row, counting real tokens only, so that padding on the left shifts nothing.

    Args:
        inputs_embeds: the newest tokens, `[batch, length, d_model]`.
        attention_mask: 1 for real tokens, `[batch, past_length + length]`; None, or a prepared mask of another shape,
            where every token counts.
        past_length: tokens already in the cache.

    Returns:
        Positions from 0, `[batch or 1, length]`.
    """
    length = inputs_embeds.shape[1]
    if attention_mask is not None and attention_mask.dim() == 2:
        return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
    return (torch.arange(length, device=inputs_embeds.device) + past_length).unsqueeze(0)


class WenzhenDropout(nn.Dropout):
    """Dropout that a CPU can afford: one random number decides on four elements.

    PyTorch draws a number for each, on one core. The rate is rounded to 1/65,536, and the scale fits what it became.
    """

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Set elements to zero at the rate, and scale the others up."""
        dropped = round(self.p * 2**16)
        if not self.training or not dropped or hidden_states.device.type != "cpu":
            return super().forward(hidden_states)
        size = hidden_states.numel()
        numbers = torch.empty((size + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        kept = numbers[:size].view(hidden_states.shape) >= dropped - 2**15
        return hidden_states * kept.to(hidden_states.dtype).mul_(2**16 / (2**16 - dropped))


class WenzhenPacking:
    """The real tokens of a padded batch in a row, so that nothing but attention computes padding.

    Args:
        real: which tokens are kept, `[batch, length]`.
    """

    def __init__(self, real: torch.Tensor) -> None:
        self.batch, self.length = real.shape
        self.indices = real.flatten().nonzero().squeeze(1)

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """Take `[batch, length, …]` to `[1, tokens, …]`."""
        return padded.flatten(0, 1).index_select(0, self.indices).unsqueeze(0)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """Take `[1, tokens, size]` back to `[batch, length, size]`, zeros in the place of padding."""
        padded = packed.new_zeros(self.batch * self.length, packed.shape[-1])
        return padded.index_add(0, self.indices, packed[0]).view(self.batch, self.length, -1)


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, softmax(score(q, k) · scaling + mask) · v, written out so that its weights can be looked at.

    Args:
        module: the [`WenzhenAttention`] whose scores are used.
        query: `[batch, heads, target_length, head_dim]`.
        key, value: `[batch, heads, source_length, head_dim]`.
        attention_mask: added to the scores, broadcastable to `[batch, heads, target_length, source_length]`.

    Returns:
        The output `[batch, target_length, heads, head_dim]` and the weights
        `[batch, heads, target_length, source_length]`.
    """
    scores = module.score(query * scaling, key)
    if attention_mask is not None:
        # Under autocast the mask has the wider type of the embeddings, whose lowest number is no number here.
        scores = scores + attention_mask.clamp(min=torch.finfo(scores.dtype).min).to(scores.dtype)
    # PyTorch sums exponentials in float32 whatever the type of the scores.
    weights = nn.functional.softmax(scores, dim=-1).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


class WenzhenAttention(nn.Module):
    """What self-attention and cross-attention share: heads, scores, scale and the output projection."""

    def __init__(self, config: WenzhenConfig, layer_idx: int, is_causal: bool) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        # Read by sdpa and flash attention when there is no mask to say it.
        self.is_causal = is_causal
        self.head_dim = config.d_model // config.attention_heads
        self.scaling = self.head_dim**-0.5 if config.attention_score == "scaled_dot" else 1.0
        self.out_proj = nn.Linear(config.d_model, config.d_model)
        if config.attention_score == "additive":
            self.score_vector = nn.Parameter(torch.empty(config.attention_heads, self.head_dim))
        elif config.attention_score == "bilinear":
            self.score_matrix = nn.Parameter(torch.empty(config.attention_heads, self.head_dim, self.head_dim))

    def score(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Compare every query with every key, by the score that `attention_score` names:

        - `dot`: qᵀk, and `scaled_dot`: qᵀk / √head_dim, the division left to `scaling` (Vaswani et al. 2017, 3.2.1).
        - `additive`: vᵀ tanh(k + q) (Bahdanau et al. 2015, A.1.2). The heads' projections of keys and queries are the
          W and U of vᵀ tanh(W x + U q). It takes `head_dim` times the memory of the others.
        - `bilinear`: kᵀ W q (Luong et al. 2015, 3.1, `general`).

        Args:
            query: `[batch, heads, target_length, head_dim]`.
            key: `[batch, heads, source_length, head_dim]`.

        Returns:
            `[batch, heads, target_length, source_length]`.
        """
        if self.config.attention_score == "additive":
            compared = torch.tanh(key.unsqueeze(2) + query.unsqueeze(3))
            return torch.einsum("bhtsd,hd->bhts", compared, self.score_vector)
        if self.config.attention_score == "bilinear":
            key = torch.matmul(key, self.score_matrix)
        return torch.matmul(query, key.transpose(2, 3))

    def split_heads(
        self, projected: torch.Tensor, parts: int, packing: WenzhenPacking | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Cut `[batch, length, parts · d_model]`, or that packed, into `parts` tensors
        `[batch, heads, length, head_dim]`."""
        if packing is not None:
            projected = packing.unpack(projected)
        batch, length, _ = projected.shape
        return projected.view(batch, length, parts, -1, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        packing: WenzhenPacking | None = None,
        implementation: str | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run an attention, by default the config's, and project the joined heads, packed again where `packing` is
        given; only eager returns weights too."""
        implementation = implementation or self.config._attn_implementation
        attention_interface: Callable[..., tuple[torch.Tensor, torch.Tensor | None]] = (
            ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        )
        output, weights = attention_interface(
            self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        output = output.flatten(2)
        return self.out_proj(output if packing is None else packing.pack(output)), weights


class WenzhenSelfAttention(WenzhenAttention):
    """Multi-head attention of a sequence on itself, query, key and value projected in one product."""

    def __init__(self, config: WenzhenConfig, layer_idx: int, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal)
        self.qkv_proj = nn.Linear(config.d_model, 3 * config.d_model)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend from `hidden_states` `[batch, length, d_model]`, or packed, to itself and to what the cache holds."""
        query, key, value = self.split_heads(self.qkv_proj(hidden_states), 3, packing)
        if past_key_values is not None:
            key, value = past_key_values.self_attention_cache.update(key, value, self.layer_idx)
        return self.attend(query, key, value, attention_mask, packing, **kwargs)


class WenzhenCrossAttention(WenzhenAttention):
    """Multi-head attention of the decoder on the encoder's output, key and value projected in one product."""

    def __init__(self, config: WenzhenConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx, is_causal=False)
        self.q_proj = nn.Linear(config.d_model, config.d_model)
        self.kv_proj = nn.Linear(config.d_model, 2 * config.d_model)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        packing: WenzhenPacking | None = None,
        encoder_packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend from `hidden_states` `[batch, target_length, d_model]` to `encoder_hidden_states`, or both packed."""
        (query,) = self.split_heads(self.q_proj(hidden_states), 1, packing)
        if past_key_values is not None and past_key_values.is_updated.get(self.layer_idx):
            # The encoder's output does not change while an answer grows: its keys and values are computed once.
            cached = past_key_values.cross_attention_cache.layers[self.layer_idx]
            key, value = cached.keys, cached.values
        else:
            key, value = self.split_heads(self.kv_proj(encoder_hidden_states), 2, encoder_packing)
            if past_key_values is not None:
                key, value = past_key_values.cross_attention_cache.update(key, value, self.layer_idx)
                past_key_values.is_updated[self.layer_idx] = True
        implementation = None
        if isinstance(attention_mask, torch.Tensor) and attention_mask.dim() == 2:
            # A mask for flash attention, which transformers takes for the queries' too: here it is the keys' alone.
            implementation, attention_mask = "sdpa", attention_mask[:, None, None].bool()
        return self.attend(query, key, value, attention_mask, packing, implementation, **kwargs)


class WenzhenMLP(nn.Module):
    """The position-wise feed-forward sublayer, W₂·activation(W₁·x + b₁) + b₂."""

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.d_ff)
        self.fc2 = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACT2FN[config.activation_function]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Map `[batch, length, d_model]` to the same shape, each position by itself."""
        return self.fc2(self.activation(self.fc1(hidden_states)))


class WenzhenLayer(GradientCheckpointingLayer):
    """What encoder and decoder layers share: how a sublayer stands beside its residual connection."""

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.dropout = WenzhenDropout(config.dropout)

    def add_sublayer(
        self, hidden_states: torch.Tensor, norm: nn.LayerNorm, sublayer: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Return LayerNorm(x + Dropout(Sublayer(x))) or, with pre-norm, x + Dropout(Sublayer(LayerNorm(x)))."""
        if self.pre_norm:
            return hidden_states + self.dropout(sublayer(norm(hidden_states)))
        return norm(hidden_states + self.dropout(sublayer(hidden_states)))


class WenzhenEncoderLayer(WenzhenLayer):
    """Self-attention and feed-forward."""

    def __init__(self, config: WenzhenConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = WenzhenSelfAttention(config, layer_idx, is_causal=False)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.mlp = WenzhenMLP(config)
        self.mlp_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """Map `[batch, source_length, d_model]` to the same shape."""
        hidden_states = self.add_sublayer(
            hidden_states,
            self.self_attn_layer_norm,
            lambda states: self.self_attn(states, attention_mask, **kwargs)[0],
        )
        return self.add_sublayer(hidden_states, self.mlp_layer_norm, self.mlp)


class WenzhenDecoderLayer(WenzhenLayer):
    """Causal self-attention, cross-attention and feed-forward."""

    def __init__(self, config: WenzhenConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = WenzhenSelfAttention(config, layer_idx, is_causal=True)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.cross_attn = WenzhenCrossAttention(config, layer_idx)
        self.cross_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.mlp = WenzhenMLP(config)
        self.mlp_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        encoder_packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """Map `[batch, target_length, d_model]` to the same shape, looking at the encoder's output."""
        hidden_states = self.add_sublayer(
            hidden_states,
            self.self_attn_layer_norm,
            lambda states: self.self_attn(states, attention_mask, past_key_values, **kwargs)[0],
        )
        hidden_states = self.add_sublayer(
            hidden_states,
            self.cross_attn_layer_norm,
            lambda states: self.cross_attn(
                states,
                encoder_hidden_states,
                encoder_attention_mask,
                past_key_values,
                encoder_packing=encoder_packing,
                **kwargs,
            )[0],
        )
        return self.add_sublayer(hidden_states, self.mlp_layer_norm, self.mlp)


class WenzhenPreTrainedModel(PreTrainedModel):
    """What every model of the family shares: its abilities and its initialization."""

    config: WenzhenConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["WenzhenEncoderLayer", "WenzhenDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Xavier for projections; embeddings of variance 1/d, so that scaled by √d they weigh as much as positions."""
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, WenzhenAttention):
            self._init_scores(module)
        elif isinstance(module, WenzhenLearnedPositions):
            # The variance of the sines and cosines that they stand for.
            init.normal_(module.weight, mean=0.0, std=0.5**0.5)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
            if not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, WenzhenSinusoidalPositions):
            # Non-persistent buffers come back empty from `from_pretrained`.
            init.copy_(module.weight, module.create_weight())

    def _init_scores(self, attention: WenzhenAttention) -> None:
        """Xavier for each head's own matrix or vector."""
        if self.config.attention_score == "additive":
            bound = (6 / (attention.head_dim + 1)) ** 0.5
            init.uniform_(attention.score_vector, -bound, bound)
        elif self.config.attention_score == "bilinear":
            bound = (6 / (2 * attention.head_dim)) ** 0.5
            init.uniform_(attention.score_matrix, -bound, bound)

    def _resize_token_embeddings(
        self, new_num_tokens: int | None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the decoder's own embedding too, where it has one."""
        resized = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if not self.config.tie_word_embeddings:
            decoder = self.get_decoder()
            decoder.embed_tokens = self._get_resized_embeddings(
                decoder.embed_tokens, resized.num_embeddings, mean_resizing=mean_resizing
            )
        return resized

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        """Give eager attention to scores that only it can compute, and refuse any other by name."""
        if self.config.attention_score != "scaled_dot":
            if attn_implementation not in (None, "eager"):
                raise ValueError(
                    f'`attention_score="{self.config.attention_score}"` needs `attn_implementation="eager"`, got '
                    f'"{attn_implementation}".'
                )
            attn_implementation = "eager"
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)


class WenzhenStack(WenzhenPreTrainedModel):
    """What encoder and decoder share: embedding + position, and the normalization behind the last layer."""

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_scale = math.sqrt(config.d_model)
        self.positions = POSITIONS[config.positions](config)
        self.dropout = WenzhenDropout(config.dropout)
        # Pre-norm leaves the last layer's output as it is; post-norm has just normalized it.
        self.layer_norm = (
            nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm == "pre" else nn.Identity()
        )
        self.gradient_checkpointing = False

    def embed(self, input_ids: torch.LongTensor | None, inputs_embeds: torch.Tensor | None) -> torch.Tensor:
        """Return the unscaled embeddings, `[batch, length, d_model]`, of exactly one of the two inputs."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
        return self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds

    def add_positions(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, cache: Cache | None = None
    ) -> torch.Tensor:
        """Return Dropout(√d · embedding + position), `[batch, length, d_model]`; `cache` holds the tokens before.

        Raises:
            ValueError: the sequence is longer than `max_position_embeddings`.
        """
        past_length = cache.get_seq_length() if cache is not None else 0
        length = past_length + inputs_embeds.shape[1]
        if cache is not None and isinstance(past_length, torch.Tensor):
            # A static cache counts on the device, and reading it would stop a compiled graph: all it holds must fit.
            length = cache.layers[0].max_cache_len
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"A sequence of {length} tokens is longer than `max_position_embeddings` "
                f"({self.config.max_position_embeddings}). Truncate it, or train with a larger value."
            )
        position_ids = position_ids_of(inputs_embeds, attention_mask, past_length)
        return self.dropout(inputs_embeds * self.embed_scale + self.positions(position_ids))


class WenzhenEncoder(WenzhenStack):
    """`encoder_layers` layers over the question."""

    _can_record_outputs = {
        "hidden_states": WenzhenEncoderLayer,
        "attentions": OutputRecorder(WenzhenSelfAttention, index=1),
    }

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(WenzhenEncoderLayer(config, index) for index in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode questions.

        Args:
            input_ids: `[batch, source_length]`; or
            inputs_embeds: `[batch, source_length, d_model]`, before the scaling by √d.
            attention_mask: 1 for real tokens, 0 for padding on either side, `[batch, source_length]`.
            packing: of the questions; the hidden states are then packed.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        hidden_states = self.add_positions(inputs_embeds, attention_mask)
        if packing is not None:
            hidden_states = packing.pack(hidden_states)
        attention_mask = create_bidirectional_mask(self.config, inputs_embeds, attention_mask)
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask, packing=packing, **kwargs)
        return BaseModelOutput(last_hidden_state=self.layer_norm(hidden_states))


class WenzhenDecoder(WenzhenStack):
    """`decoder_layers` layers over the answer so far and the encoder's output."""

    _can_record_outputs = {
        "hidden_states": WenzhenDecoderLayer,
        "attentions": OutputRecorder(WenzhenSelfAttention, index=1),
        "cross_attentions": OutputRecorder(WenzhenCrossAttention, index=1),
    }

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(WenzhenDecoderLayer(config, index) for index in range(config.decoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        packing: WenzhenPacking | None = None,
        encoder_packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode answers.

        Args:
            input_ids: the newest tokens, `[batch, target_length]`; or
            inputs_embeds: `[batch, target_length, d_model]`, before the scaling by √d.
            attention_mask: 1 for real tokens, `[batch, past_length + target_length]`.
            encoder_hidden_states: `[batch, source_length, d_model]`.
            encoder_attention_mask: 1 for real tokens of the question, `[batch, source_length]`.
            past_key_values: keys and values of the tokens before `input_ids`; made when `use_cache` asks for it.
            packing: of the answers; the hidden states are then packed.
            encoder_packing: of the questions, where `encoder_hidden_states` are packed.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        self_attention_cache = past_key_values.self_attention_cache if past_key_values is not None else None
        hidden_states = self.add_positions(inputs_embeds, attention_mask, self_attention_cache)
        if packing is not None:
            hidden_states = packing.pack(hidden_states)

        attention_mask = create_causal_mask(self.config, inputs_embeds, attention_mask, self_attention_cache)
        # A mask is made for the shape that attention sees, whatever stands there.
        attended = encoder_hidden_states
        if encoder_packing is not None:
            attended = inputs_embeds.new_empty(encoder_packing.batch, encoder_packing.length, 1)
        encoder_attention_mask = create_bidirectional_mask(
            self.config, inputs_embeds, encoder_attention_mask, encoder_hidden_states=attended
        )
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                encoder_hidden_states,
                attention_mask,
                encoder_attention_mask,
                past_key_values=past_key_values,
                packing=packing,
                encoder_packing=encoder_packing,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.layer_norm(hidden_states), past_key_values=past_key_values if use_cache else None
        )


class WenzhenLinearCrossEntropy(torch.autograd.Function):
    """The output layer and its cross-entropy in one, some rows at a time, so that the logits never exist as a whole.

    The gradients are made on the way, while a row's logits are at hand (as in the Liger kernels, Hsu et al. 2024).
    """

    # Logits at a time: few enough to stay in a processor's cache.
    CHUNK = 2**21
    # Tensor cores want sizes in such multiples; a CPU was no faster for it.
    MULTIPLE = {"cuda": 64}

    @staticmethod
    def forward(
        ctx: Any, hidden_states: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, smoothing: float
    ) -> torch.Tensor:
        """Sum the losses.

        Args:
            hidden_states: `[tokens, d_model]`.
            weight: of the output layer, `[vocab_size, d_model]`.
            labels: `[tokens]`.
            smoothing: the share ε of the target that is spread evenly over the vocabulary (Szegedy et al. 2016, 7).

        Returns:
            Σ (1 - ε)·-log p(label) + ε·mean(-log p) in nats, in float32 or wider.
        """
        device = hidden_states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_states.dtype
        wide = torch.promote_types(dtype, torch.float32)
        vocab_size = len(weight)
        missing = -vocab_size % WenzhenLinearCrossEntropy.MULTIPLE.get(device, 1)
        matrix = nn.functional.pad(weight.to(dtype), (0, 0, 0, missing))
        rows = max(1, WenzhenLinearCrossEntropy.CHUNK // vocab_size)
        loss = torch.zeros((), dtype=wide, device=hidden_states.device)
        hidden_gradient = torch.empty_like(hidden_states)
        weight_gradient = torch.zeros_like(weight, dtype=wide)
        for states, targets, gradient in zip(
            hidden_states.to(dtype).split(rows), labels.split(rows), hidden_gradient.split(rows), strict=True
        ):
            logits = torch.mm(states, matrix.t())[:, :vocab_size].to(wide)
            log_sums = logits.logsumexp(1, keepdim=True)
            targets = targets.unsqueeze(1)
            loss += (log_sums - (1 - smoothing) * logits.gather(1, targets)).sum()
            if smoothing:
                loss -= smoothing * logits.mean(1).sum()
            # From here on the derivatives by the logits: softmax minus target.
            logits.sub_(log_sums).exp_()
            if smoothing:
                logits.sub_(smoothing / vocab_size)
            logits.scatter_add_(1, targets, torch.full_like(log_sums, smoothing - 1))
            logits = nn.functional.pad(logits.to(dtype), (0, missing))
            gradient.copy_(torch.mm(logits, matrix))
            weight_gradient += torch.mm(logits.t(), states)[:vocab_size]
        ctx.save_for_backward(hidden_gradient, weight_gradient.to(weight.dtype))
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        """Scale what the forward pass made."""
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * gradient.to(hidden_gradient.dtype), weight_gradient * gradient, None, None


class WenzhenModel(WenzhenPreTrainedModel):
    """Encoder and decoder, without the output layer."""

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        if config.tie_word_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = WenzhenEncoder(config)
        self.decoder = WenzhenDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding that encoder and decoder share, or the encoder's own."""
        return self.shared if self.config.tie_word_embeddings else self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding that encoder and decoder share, or the encoder's own."""
        self.encoder.embed_tokens = value
        if self.config.tie_word_embeddings:
            self.shared = value
            self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        packing: WenzhenPacking | None = None,
        encoder_packing: WenzhenPacking | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Run both sides; see the forwards of encoder and decoder for shapes. `encoder_outputs` skips the encoder."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                packing=encoder_packing,
                **kwargs,
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            packing=packing,
            encoder_packing=encoder_packing,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class WenzhenForConditionalGeneration(WenzhenPreTrainedModel, GenerationMixin):
    """The whole model: a question in, an answer out, one token at a time."""

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        self.model = WenzhenModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def prepare_decoder_input_ids_from_labels(self, labels: torch.LongTensor) -> torch.LongTensor:
        """Shift labels `[batch, target_length]` one to the right behind the start token; -100 becomes padding."""
        start = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        shifted = torch.cat((start, labels[:, :-1]), dim=1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def token_loss(
        self,
        hidden_states: torch.Tensor,
        labels: torch.LongTensor,
        num_items_in_batch: int | torch.Tensor | None,
        label_smoothing: float,
    ) -> torch.Tensor:
        """Return the loss of tokens, `[tokens, d_model]` and `[tokens]`, over their number or the one given."""
        real = labels != -100
        total: torch.Tensor = WenzhenLinearCrossEntropy.apply(
            hidden_states[real], self.lm_head.weight, labels[real], label_smoothing
        )
        return total / (real.sum() if num_items_in_batch is None else num_items_in_batch)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        loss_only: bool = False,
        label_smoothing: float = 0.0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Score answers, and with `labels` measure the loss.

        Args:
            input_ids: questions, `[batch, source_length]`.
            attention_mask: 1 for real tokens of the questions, `[batch, source_length]`.
            decoder_input_ids: `[batch, target_length]`; made from `labels` where it is missing.
            labels: the token after each decoder input, -100 where there is none, `[batch, target_length]`.
            loss_only: compute the loss of `labels`, and neither padding nor logits: the same number, much sooner.
            label_smoothing: with `loss_only`, the share of the target that is spread evenly over the vocabulary.

        Returns:
            `loss` in nats per real label (over `num_items_in_batch` labels where the Trainer gives that number, so
            that accumulation and several processes change nothing) and `logits` `[batch, target_length, vocab_size]`.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if loss_only:
            if labels is None:
                raise ValueError("`loss_only` needs `labels`.")
            # A loss depends on all positions up to a row's last label.
            kwargs["packing"] = packing = WenzhenPacking(labels.ne(-100).flip(1).cumsum(1).flip(1) > 0)
            if attention_mask is not None and encoder_outputs is None:
                kwargs["encoder_packing"] = WenzhenPacking(attention_mask.bool())
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        if loss_only:
            items = kwargs.get("num_items_in_batch")
            states, targets = outputs.last_hidden_state[0], packing.pack(labels)[0]
            return Seq2SeqLMOutput(loss=self.token_loss(states, targets, items, label_smoothing))
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            # The decoder's inputs are shifted already: `labels=None` keeps the loss function from shifting again.
            loss = self.loss_function(
                logits=logits, labels=None, vocab_size=self.config.vocab_size, shift_labels=labels, **kwargs
            )
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, **{k: v for k, v in outputs.items() if k != "last_hidden_state"}
        )


class WenzhenForSequenceClassification(WenzhenPreTrainedModel):
    """The encoder, and a linear layer on the mean of what it makes of a question: which department it is for."""

    base_model_prefix = "encoder"

    def __init__(self, config: WenzhenConfig) -> None:
        super().__init__(config)
        self.encoder = WenzhenEncoder(config)
        self.dropout = WenzhenDropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        loss_only: bool = False,
        label_smoothing: float = 0.0,
        num_items_in_batch: int | torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Score departments, and with `labels` measure the loss.

        Args:
            input_ids: questions, `[batch, source_length]`; or
            inputs_embeds: `[batch, source_length, d_model]`, before the scaling by √d.
            attention_mask: 1 for real tokens, 0 for padding on either side, `[batch, source_length]`.
            labels: the real departments' numbers, -100 where there is none, `[batch]`.
            loss_only: compute no padding: the same numbers, sooner, in shapes that no compiler can fix.
            label_smoothing: the share of the target that is spread evenly over the departments.
            num_items_in_batch: what the loss is divided by in the place of the number of labels; see
                [`WenzhenForConditionalGeneration.forward`].

        Returns:
            `loss` in nats per label and `logits` `[batch, num_labels]`.
        """
        packing = WenzhenPacking(attention_mask.bool()) if loss_only and attention_mask is not None else None
        outputs = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, packing=packing, **kwargs
        )
        hidden_states = outputs.last_hidden_state
        if packing is not None:
            hidden_states = packing.unpack(hidden_states)
        logits = self.classifier(self.dropout(self.mean(hidden_states, attention_mask)))
        loss = None
        if labels is not None:
            total = nn.functional.cross_entropy(
                logits.float(), labels, reduction="sum", label_smoothing=label_smoothing
            )
            loss = total / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )

    def mean(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Take the mean over each question's real tokens, `[batch, source_length, d_model]` to `[batch, d_model]`."""
        if attention_mask is None:
            return hidden_states.mean(1)
        real = attention_mask.to(hidden_states.dtype).unsqueeze(-1)
        return (hidden_states * real).sum(1) / real.sum(1).clamp(min=1)


__all__ = [
    "WenzhenForConditionalGeneration",
    "WenzhenForSequenceClassification",
    "WenzhenModel",
    "WenzhenPreTrainedModel",
]
