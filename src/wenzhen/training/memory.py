"""What a training step keeps in memory, and which settings would make it less; amounts are known of a Transformer."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, Seq2SeqTrainingArguments

# Outputs that a layer keeps for its backward pass, in vectors of d_model. Self-attention: its input, query, key,
# value, joined heads and their projection; feed-forward: input and output; and each sublayer's sum and its norm.
ENCODER_VECTORS = 6 + 2 + 2 * 2
# And cross-attention: input, query, joined heads, projection, sum and norm; its keys and values lie at the question.
DECODER_VECTORS = ENCODER_VECTORS + 6
CROSS_VECTORS = 2


@dataclass(frozen=True)
class Shape:
    """A batch's number of pairs, and the lengths that its questions and answers are padded to."""

    pairs: int
    question_length: int
    answer_length: int

    @classmethod
    def of(cls, inputs: dict[str, torch.Tensor]) -> "Shape":
        """Take the shape of what a model is given."""
        (pairs, question_length), labels = inputs["input_ids"].shape, inputs["labels"].shape
        # A department has no length.
        return cls(pairs, question_length, labels[1] if len(labels) > 1 else 0)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception says that a device, or the machine, has no memory left."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def activation_bytes(config: Any, shape: Shape, element_size: int, checkpointing: bool = False) -> int:
    """Estimate what the layers keep between the forward and the backward pass, padding counted.

    It counts the outputs of projections, residual sums, norms and the feed-forward's inner layer, and the attention
    weights where they are written out; not dropout's masks, the embeddings, the loss, or what a kernel needs for
    itself.

    Args:
        config: of the model.
        shape: of the batch.
        element_size: bytes of a number, 2 in bfloat16.
        checkpointing: keep only each layer's input, and one layer as a whole.
    """
    questions, answers = shape.pairs * shape.question_length, shape.pairs * shape.answer_length
    inner = 2 * config.d_ff
    encoder = questions * (ENCODER_VECTORS * config.d_model + inner)
    decoder = answers * (DECODER_VECTORS * config.d_model + inner) + questions * CROSS_VECTORS * config.d_model
    if config._attn_implementation == "eager":
        encoder += config.attention_heads * questions * shape.question_length
        decoder += config.attention_heads * answers * (shape.answer_length + shape.question_length)
    total = config.encoder_layers * encoder + config.decoder_layers * decoder
    if checkpointing:
        inputs = (config.encoder_layers * questions + config.decoder_layers * answers) * config.d_model
        total = inputs + max(encoder, decoder)
    return total * element_size


def memory_advice(
    model: PreTrainedModel, arguments: Seq2SeqTrainingArguments, shape: Shape, max_tokens: int | None, step: int
) -> str:
    """Say what used the memory up, and which settings to lower.

    Args:
        model: what is trained.
        arguments: how.
        shape: of the batch that failed.
        max_tokens: the run's `max_tokens_per_batch`, if it has one.
        step: in which it failed.
    """
    config = model.config
    element_size = 2 if arguments.bf16 else 4
    is_transformer = config.model_type == "wenzhen"
    taken = ""
    if is_transformer:
        used = activation_bytes(config, shape, element_size, arguments.activation_checkpointing)
        taken = f"the layers' outputs take about {gigabytes(used)}, "

    def saving(pairs: int | None = None, answer_length: int | None = None, checkpointing: bool | None = None) -> str:
        if not is_transformer:
            return "memory"
        other = Shape(pairs or shape.pairs, shape.question_length, answer_length or shape.answer_length)
        if checkpointing is None:
            checkpointing = arguments.activation_checkpointing
        return gigabytes(used - activation_bytes(config, other, element_size, checkpointing))

    passes = f"training.gradient_accumulation_steps={2 * arguments.gradient_accumulation_steps}"
    half = max(1, shape.pairs // 2)
    lowered = []
    if max_tokens is not None:
        lowered.append(f"training.max_tokens_per_batch={max_tokens // 2} with {passes} saves {saving(pairs=half)}")
    elif shape.pairs > 1:
        size = max(1, arguments.per_device_train_batch_size // 2)
        lowered.append(
            f"training.per_device_train_batch_size={size} with {passes} saves {saving(pairs=half)} at the same result"
        )
    if not arguments.activation_checkpointing:
        lowered.append(
            f"training.activation_checkpointing=true saves {saving(checkpointing=True)} at the same result, and is "
            "slower"
        )
    if shape.answer_length > 2:
        length = shape.answer_length // 2
        lowered.append(f"data.max_answer_length={length} saves {saving(answer_length=length)} and teaches less")
    state = gigabytes(16 * model.num_parameters())
    return (
        f"out of memory in step {step}, with a batch of {shape.pairs} pairs of {shape.question_length} + "
        f"{shape.answer_length} tokens: {taken}weights, gradients and Adam's state take {state}; {'; '.join(lowered)}"
    )


def measuring_advice(config: Any, arguments: Seq2SeqTrainingArguments, shape: Shape) -> str:
    """Say what used the memory up while the validation loss was measured, where nothing is kept but the logits."""
    logits = gigabytes(shape.pairs * shape.answer_length * config.vocab_size * 4)
    return (
        f"out of memory while measuring the validation loss, with a batch of {shape.pairs} pairs of "
        f"{shape.question_length} + {shape.answer_length} tokens, whose logits alone take {logits}: lower "
        f"training.per_device_eval_batch_size, now {arguments.per_device_eval_batch_size}; the result is the same"
    )


def gigabytes(size: float) -> str:
    """Write a number of bytes for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
