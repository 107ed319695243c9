"""Configuration of a recurrent encoder-decoder with attention."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class WenzhenRecurrentConfig(PreTrainedConfig):
    """Shape and special tokens of a [`WenzhenRecurrentForConditionalGeneration`], as wide and deep as the thesis'
    Transformer by default.

    Args:
        vocab_size: rows of every embedding and of the output layer.
        d_model: width of every layer's output. Even where the encoder is `bidirectional`.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        cell: what computes a state from the one before; see [`rnn_step`], [`gru_step`] and [`lstm_step`].
        bidirectional: whether each encoder layer reads from both ends, with half the width for each direction.
        attention_score: how well a state of the encoder suits one of the decoder; see [`WenzhenRecurrentAttention`].
            With `none` the decoder knows of the question what its first state tells.
        dropout: rate on the embeddings and between layers.
        max_position_embeddings: longest sequence, in tokens, that the model reads or writes.
        use_cache: whether the decoder returns its last state.
        tie_word_embeddings: one table for encoder, decoder and output; or a separate one for each.
        pad_token_id: padding. Its embedding starts at zero.
        unk_token_id: a character outside the vocabulary.
        bos_token_id: stands before an answer, as in the tokenizer.
        eos_token_id: ends questions and answers.
        decoder_start_token_id: the decoder's first input.

    Raises:
        huggingface_hub.errors.StrictDataclassError: a value has the wrong type, or the shape is impossible.
    """

    model_type = "wenzhen_recurrent"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {"hidden_size": "d_model", "num_hidden_layers": "decoder_layers"}

    vocab_size: int = 8000
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    bidirectional: bool = True
    attention_score: Literal["scaled_dot", "dot", "additive", "bilinear", "none"] = "scaled_dot"
    dropout: float | int = 0.1
    max_position_embeddings: int = 512
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    unk_token_id: int = 1
    bos_token_id: int = 2
    eos_token_id: int | list[int] = 3
    decoder_start_token_id: int = 2

    def validate_shape(self) -> None:
        """Refuse shapes that no network can have. Called by `@strict` when the config is made and saved."""
        for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        if self.bidirectional and self.d_model % 2:
            raise ValueError(
                f"`d_model` must be even with `bidirectional`, where each direction has half of it, got "
                f"{self.d_model}."
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout}.")
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


__all__ = ["WenzhenRecurrentConfig"]
