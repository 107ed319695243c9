"""Configuration of the thesis' encoder-decoder Transformer."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class WenzhenConfig(PreTrainedConfig):
    """Shape and special tokens of a [`WenzhenForConditionalGeneration`]; the defaults are the thesis' model.

    Args:
        vocab_size: rows of every embedding and of the output layer.
        d_model: width of every layer's output. A multiple of `attention_heads`, and even with sinusoidal positions.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        attention_heads: heads of every attention.
        d_ff: inner width of the feed-forward sublayers.
        activation_function: activation between the two feed-forward projections.
        norm: `post`, LayerNorm(x + Dropout(Sublayer(x))); or `pre`, x + Dropout(Sublayer(LayerNorm(x))), with one more
            normalization behind each side's last layer (Xiong et al. 2020).
        positions: `sinusoidal`, a fixed table (Vaswani et al. 2017, 3.5); or `learned`, a trained one for each side.
        attention_score: how well a key suits a query; see [`WenzhenAttention.score`]. All but `scaled_dot` need
            `attn_implementation="eager"`, which they get unless another is asked for.
        dropout: rate on every sublayer's output before the residual sum, and on embedding + position.
        max_position_embeddings: longest sequence, in tokens, that the position table holds.
        layer_norm_eps: added to the variance in layer normalization.
        use_cache: whether the decoder returns the keys and values that it computed.
        tie_word_embeddings: one table for encoder, decoder and output; or a separate one for each.
        pad_token_id: padding. Its embedding starts at zero.
        unk_token_id: a character outside the vocabulary.
        bos_token_id: stands before an answer, as in the tokenizer.
        eos_token_id: ends questions and answers.
        decoder_start_token_id: the decoder's first input.

    Raises:
        huggingface_hub.errors.StrictDataclassError: a value has the wrong type, or the shape is impossible.
    """

    model_type = "wenzhen"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "attention_heads",
        "num_hidden_layers": "decoder_layers",
    }

    vocab_size: int = 8000
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    attention_heads: int = 8
    d_ff: int = 2048
    activation_function: Literal["relu", "gelu", "silu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    attention_score: Literal["scaled_dot", "dot", "additive", "bilinear"] = "scaled_dot"
    dropout: float | int = 0.1
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-5
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    unk_token_id: int = 1
    bos_token_id: int = 2
    eos_token_id: int | list[int] = 3
    decoder_start_token_id: int = 2

    def validate_shape(self) -> None:
        """Refuse shapes that no Transformer can have. Called by `@strict` when the config is made and saved."""
        for name in (
            "vocab_size",
            "d_model",
            "encoder_layers",
            "decoder_layers",
            "attention_heads",
            "d_ff",
            "max_position_embeddings",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        if self.d_model % self.attention_heads:
            raise ValueError(
                f"`d_model` must be a multiple of `attention_heads`, got {self.d_model} and {self.attention_heads}."
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"`d_model` must be even with sinusoidal `positions`, which are pairs of sine and cosine, got "
                f"{self.d_model}."
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout}.")
        if not 0 < self.layer_norm_eps < 1:
            raise ValueError(f"`layer_norm_eps` must be above 0 and below 1, got {self.layer_norm_eps}.")
        if not self.is_encoder_decoder:
            raise ValueError("`is_encoder_decoder` must be true: the model has an encoder and a decoder.")

    def validate_tokens(self) -> None:
        """Refuse special tokens that the vocabulary does not have; called as [`validate_shape`] is."""
        ends = self.eos_token_id if isinstance(self.eos_token_id, list) else [self.eos_token_id]
        if not ends:
            raise ValueError("`eos_token_id` must name at least one token, got [].")
        named = [(name, getattr(self, name)) for name in ("pad_token_id", "unk_token_id", "bos_token_id")]
        named += [("decoder_start_token_id", self.decoder_start_token_id), *(("eos_token_id", end) for end in ends)]
        for name, token in named:
            if not 0 <= token < self.vocab_size:
                raise ValueError(f"`{name}` must be in [0, `vocab_size`), got {token} and {self.vocab_size}.")


__all__ = ["WenzhenConfig"]
