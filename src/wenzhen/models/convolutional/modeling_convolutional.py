"""A convolutional encoder-decoder with attention in each layer of the decoder.

"Convolutional Sequence to Sequence Learning" (Gehring et al. 2017): learned positions, gated convolutions, residual
connections, and in each decoder layer a dot-product attention on the whole question. Embeddings are as wide as layers,
so that the paper's maps between the two widths fall away; left out are its weight normalization, the bias of its
output layer, and the division of the encoder's gradients by the number of attentions, which an optimizer that scales
gradients by their own size, as Adam does, undoes. The file reads from the smallest part to the whole and imports
nothing of this package but its configuration, because it travels to the Hub beside the weights.
"""

from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_convolutional import WenzhenConvolutionalConfig

# Halves the variance of the sum of a convolution's input and output (Gehring et al. 2017, 3.4).
RESIDUAL_SCALE = 0.5**0.5


def position_ids_of(
    inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int
) -> torch.Tensor:
    """Number the newest tokens of each row, counting real tokens only, so that padding on the left shifts nothing.

    Args:
        inputs_embeds: the newest tokens, `[batch, length, d_model]`.
        attention_mask: 1 for real tokens, `[batch, past_length + length]`; None where every token counts.
        past_length: tokens already in the cache.

    Returns:
        Positions from 0, `[batch or 1, length]`.
    """
    length = inputs_embeds.shape[1]
    if attention_mask is not None:
        return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
    return (torch.arange(length, device=inputs_embeds.device) + past_length).unsqueeze(0)


class WenzhenConvolutionalGate(nn.Conv1d):
    """A convolution to 2·d features and the gated linear unit v([A B]) = A ⊗ σ(B) of them (3.2)."""

    def __init__(self, config: WenzhenConvolutionalConfig, padding: int) -> None:
        super().__init__(config.d_model, 2 * config.d_model, config.kernel_size, padding=padding)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Map `[batch, length, d_model]` to `[batch, length + 2·padding - kernel_size + 1, d_model]`."""
        # An image one pixel high, whose channels are the last dimension in memory: a CPU needs a third less time for
        # this convolution than for one along `[batch, d_model, length]`, and half of that of a matrix product.
        image = hidden_states.transpose(1, 2).unsqueeze(2)
        image = nn.functional.conv2d(image, self.weight.unsqueeze(2), self.bias, padding=(0, *self.padding))
        return nn.functional.glu(image.squeeze(2).transpose(1, 2), dim=-1)


class WenzhenConvolutionalAttention(nn.Module):
    """What a decoder layer reads of the question (3.3)."""

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__()
        self.q_proj = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        hidden_states: torch.Tensor,
        embeddings: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compare the summaries dᵢ = W hᵢ + b + gᵢ with the keys zⱼ, and average the values by softmaxⱼ(dᵢ·zⱼ).

        Args:
            hidden_states: h, `[batch, target_length, d_model]`.
            embeddings: g, of the layer's tokens, `[batch, target_length, d_model]`.
            encoder_hidden_states: keys and values, as [`WenzhenConvolutionalEncoder`] returns them.
            encoder_attention_mask: 1 for real tokens of the question, `[batch, source_length]`.

        Returns:
            The contexts c, `[batch, target_length, d_model]`, and the weights
            `[batch, 1, target_length, source_length]`.
        """
        keys, values = encoder_hidden_states.chunk(2, dim=-1)
        summaries = self.q_proj(hidden_states) + embeddings
        scores = torch.matmul(summaries, keys.transpose(1, 2))
        if encoder_attention_mask is not None:
            padding = encoder_attention_mask.unsqueeze(1) == 0
            scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
        weights = nn.functional.softmax(scores, dim=-1).to(values.dtype)
        return torch.matmul(weights, values), weights.unsqueeze(1)


class WenzhenConvolutionalEncoderLayer(GradientCheckpointingLayer):
    """A gated convolution that reads as many tokens before a token as behind it."""

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.conv = WenzhenConvolutionalGate(config, padding=config.kernel_size // 2)

    def forward(self, hidden_states: torch.Tensor, real: torch.Tensor | None = None) -> torch.Tensor:
        """Map `[batch, source_length, d_model]` to the same shape; `real` is 1 for real tokens,
        `[batch, source_length, 1]`."""
        inputs = self.dropout(hidden_states)
        if real is not None:
            inputs = inputs * real
        return (self.conv(inputs) + hidden_states) * RESIDUAL_SCALE


class WenzhenConvolutionalDecoderLayer(GradientCheckpointingLayer):
    """A gated convolution that reads the tokens so far, and an attention on the question."""

    def __init__(self, config: WenzhenConvolutionalConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.past_inputs = config.kernel_size - 1
        self.dropout = nn.Dropout(config.dropout)
        self.conv = WenzhenConvolutionalGate(config, padding=0)
        self.cross_attn = WenzhenConvolutionalAttention(config)

    def with_past(self, inputs: torch.Tensor, past_key_values: EncoderDecoderCache | None) -> torch.Tensor:
        """Put the `kernel_size` - 1 inputs before `inputs` `[batch, length, d_model]` in front of them: those that the
        cache holds, and zeros before the first."""
        length = inputs.shape[1]
        if past_key_values is not None:
            cache = past_key_values.self_attention_cache
            so_far = cache.get_seq_length(self.layer_idx) + length
            # A cache is made for keys and values of heads: one head, whose values are empty. A cache of fixed size
            # gives its empty places back too.
            keys, _ = cache.update(inputs.unsqueeze(1), inputs[:, None, :, :0], self.layer_idx)
            inputs = keys[:, 0, :so_far]
        # A negative number cuts what is too much.
        return nn.functional.pad(inputs, (0, 0, length + self.past_inputs - inputs.shape[1], 0))

    def forward(
        self,
        hidden_states: torch.Tensor,
        embeddings: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        real: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
    ) -> torch.Tensor:
        """Map `[batch, target_length, d_model]` to the same shape; see [`WenzhenConvolutionalAttention`] for the
        other arguments. `real` is 1 for real tokens, `[batch, target_length, 1]`."""
        inputs = self.dropout(hidden_states)
        if real is not None:
            inputs = inputs * real
        hidden_states = (self.conv(self.with_past(inputs, past_key_values)) + hidden_states) * RESIDUAL_SCALE
        contexts, _ = self.cross_attn(hidden_states, embeddings, encoder_hidden_states, encoder_attention_mask)
        return hidden_states + contexts


class WenzhenConvolutionalPreTrainedModel(PreTrainedModel):
    """What every model of the family shares: its abilities and its initialization."""

    config: WenzhenConvolutionalConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["WenzhenConvolutionalEncoderLayer", "WenzhenConvolutionalDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _can_compile_fullgraph = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings from N(0, 0.1); weights that keep the variance of what they read, of which dropout left the share
        p: N(0, √(4p/n)) before a gate, which quarters it, and N(0, √(p/n)) elsewhere, with n inputs (3.5)."""
        super()._init_weights(module)
        kept = 1 - self.config.dropout
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=0.1)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, WenzhenConvolutionalGate):
            inputs = self.config.kernel_size * self.config.d_model
            init.normal_(module.weight, mean=0.0, std=(4 * kept / inputs) ** 0.5)
        elif isinstance(module, nn.Linear):
            # Dropout is before the output layer alone.
            share = kept if module is getattr(self, "lm_head", None) else 1
            init.normal_(module.weight, mean=0.0, std=(share / module.in_features) ** 0.5)

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


class WenzhenConvolutionalStack(WenzhenConvolutionalPreTrainedModel):
    """What encoder and decoder share: embedding + position."""

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.gradient_checkpointing = False

    def embed(
        self,
        input_ids: torch.LongTensor | None,
        inputs_embeds: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """Return Dropout(embedding + position), `[batch, length, d_model]`; `cache` holds the tokens before.

        Raises:
            ValueError: not exactly one of the two inputs is given, or the sequence is longer than
                `max_position_embeddings`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        past_length = cache.get_seq_length() if cache is not None else 0
        length = past_length + inputs_embeds.shape[1]
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"A sequence of {length} tokens is longer than `max_position_embeddings` "
                f"({self.config.max_position_embeddings}). Truncate it, or train with a larger value."
            )
        position_ids = position_ids_of(inputs_embeds, attention_mask, past_length)
        return self.dropout(inputs_embeds + self.embed_positions(position_ids))

    def real_tokens(self, attention_mask: torch.Tensor | None, embeddings: torch.Tensor) -> torch.Tensor | None:
        """Return what the newest tokens' inputs to a convolution are multiplied by, `[batch, length, 1]`."""
        if attention_mask is None:
            return None
        return attention_mask[:, -embeddings.shape[1] :, None].to(embeddings.dtype)


class WenzhenConvolutionalEncoder(WenzhenConvolutionalStack):
    """`encoder_layers` layers over the question."""

    _can_record_outputs = {"hidden_states": WenzhenConvolutionalEncoderLayer}

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(WenzhenConvolutionalEncoderLayer(config) for _ in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode questions.

        Args:
            input_ids: `[batch, source_length]`; or
            inputs_embeds: `[batch, source_length, d_model]`, without positions.
            attention_mask: 1 for real tokens, 0 for padding on either side, `[batch, source_length]`.

        Returns:
            `last_hidden_state`, `[batch, source_length, 2·d_model]`: the keys z, which the last layer gives, and
            beside them the values √m·(z + e) of m real tokens with the embeddings e. The factor m·√(1/m) = √m is that
            of the contexts (3.4): under m equal weights, Σⱼ (zⱼ + eⱼ)/m has an m-th of a value's variance.
        """
        embeddings = self.embed(input_ids, inputs_embeds, attention_mask)
        real = self.real_tokens(attention_mask, embeddings)
        hidden_states = embeddings
        for layer in self.layers:
            hidden_states = layer(hidden_states, real)
        scale = embeddings.shape[1] ** 0.5 if real is None else real.sum(1, keepdim=True).sqrt()
        values = (hidden_states + embeddings) * scale
        return BaseModelOutput(last_hidden_state=torch.cat((hidden_states, values), dim=-1))


class WenzhenConvolutionalDecoder(WenzhenConvolutionalStack):
    """`decoder_layers` layers over the answer so far and the encoder's output."""

    _can_record_outputs = {
        "hidden_states": WenzhenConvolutionalDecoderLayer,
        "cross_attentions": OutputRecorder(WenzhenConvolutionalAttention, index=1),
    }

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            WenzhenConvolutionalDecoderLayer(config, index) for index in range(config.decoder_layers)
        )
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
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode answers.

        Args:
            input_ids: the newest tokens, `[batch, target_length]`; or
            inputs_embeds: `[batch, target_length, d_model]`, without positions.
            attention_mask: 1 for real tokens, `[batch, past_length + target_length]`.
            encoder_hidden_states: keys and values, `[batch, source_length, 2·d_model]`.
            encoder_attention_mask: 1 for real tokens of the question, `[batch, source_length]`.
            past_key_values: the last inputs of every convolution; made when `use_cache` asks for it. Its cross
                attention cache stays empty: what the encoder returns are keys and values.
        """
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache())
        cache = past_key_values.self_attention_cache if past_key_values is not None else None
        embeddings = self.embed(input_ids, inputs_embeds, attention_mask, cache)
        real = self.real_tokens(attention_mask, embeddings)
        hidden_states = embeddings
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                embeddings,
                encoder_hidden_states,
                real,
                encoder_attention_mask,
                past_key_values=past_key_values,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.dropout(hidden_states), past_key_values=past_key_values if use_cache else None
        )


class WenzhenConvolutionalModel(WenzhenConvolutionalPreTrainedModel):
    """Encoder and decoder, without the output layer."""

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__(config)
        if config.tie_word_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = WenzhenConvolutionalEncoder(config)
        self.decoder = WenzhenConvolutionalDecoder(config)
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
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Run both sides; see the forwards of encoder and decoder for shapes. `encoder_outputs` skips the encoder."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
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
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
        )


class WenzhenConvolutionalForConditionalGeneration(WenzhenConvolutionalPreTrainedModel, GenerationMixin):
    """The whole model: a question in, an answer out, one token at a time."""

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: WenzhenConvolutionalConfig) -> None:
        super().__init__(config)
        self.model = WenzhenConvolutionalModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    @staticmethod
    def create_masks_for_generate(attention_mask: torch.Tensor | None, **_: Any) -> torch.Tensor | None:
        """Leave the decoder's mask as it is, where transformers would make one for self-attention."""
        return attention_mask

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
        logits = self.lm_head(hidden_states).float()
        total = nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing)
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)

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
            loss_only: compute the loss of `labels`, and logits of no other token: the same number, sooner.
            label_smoothing: with `loss_only`, the share of the target that is spread evenly over the vocabulary.

        Returns:
            `loss` in nats per real label (over `num_items_in_batch` labels where the Trainer gives that number, so
            that accumulation and several processes change nothing) and `logits` `[batch, target_length, vocab_size]`.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if loss_only and labels is None:
            raise ValueError("`loss_only` needs `labels`.")
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
        if loss_only and labels is not None:
            real, items = labels != -100, kwargs.get("num_items_in_batch")
            loss = self.token_loss(outputs.last_hidden_state[real], labels[real], items, label_smoothing)
            return Seq2SeqLMOutput(loss=loss)
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


__all__ = [
    "WenzhenConvolutionalForConditionalGeneration",
    "WenzhenConvolutionalModel",
    "WenzhenConvolutionalPreTrainedModel",
]
