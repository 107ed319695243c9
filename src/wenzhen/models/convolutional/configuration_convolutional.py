"""Configuration of the convolutional encoder-decoder."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class WenzhenConvolutionalConfig(PreTrainedConfig):
    """Shape and special tokens of a [`WenzhenConvolutionalForConditionalGeneration`].

    Args:
        vocab_size: rows of every embedding and of the output layer.
        d_model: width of embeddings and of every layer's output.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder, each with an attention of its own.
        kernel_size: tokens that a convolution sees: itself and as many on either side in the encoder, so odd; itself
            and those before it in the decoder. A token of the answer depends on the last
            1 + `decoder_layers` · (`kernel_size` - 1) tokens before it.
        dropout: rate on embedding + position, on the input of every convolution and on the decoder's output.
        max_position_embeddings: longest sequence, in tokens, that the position tables hold.
        use_cache: whether the decoder returns the inputs of its convolutions that the next token needs.
        tie_word_embeddings: one table for encoder, decoder and output; or a separate one for each.
        pad_token_id: padding. Its embedding starts at zero.
        unk_token_id: a character outside the vocabulary.
        bos_token_id: stands before an answer, as in the tokenizer.
        eos_token_id: ends questions and answers.
        decoder_start_token_id: the decoder's first input.

    Raises:
        huggingface_hub.errors.StrictDataclassError: a value has the wrong type, or the shape is impossible.
    """

    model_type = "wenzhen_convolutional"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "decoder_layers",
        # Caches of transformers keep the last `sliding_window` - 1 tokens of a layer: what a convolution needs.
        "sliding_window": "kernel_size",
    }

    vocab_size: int = 8000
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    kernel_size: int = 3
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
        """Refuse shapes that no convolutional network can have. Called by `@strict` when the config is made and
        saved."""
        for name in (
            "vocab_size",
            "d_model",
            "encoder_layers",
            "decoder_layers",
            "kernel_size",
            "max_position_embeddings",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        if self.kernel_size % 2 == 0:
            raise ValueError(
                f"`kernel_size` must be odd, as the encoder reads as many tokens before one as behind it, got "
                f"{self.kernel_size}."
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


__all__ = ["WenzhenConvolutionalConfig"]
