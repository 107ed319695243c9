"""What a step keeps in memory: the estimate against what PyTorch keeps, and the advice."""

import pytest
import torch
from transformers import Seq2SeqTrainingArguments

from small_models import small_model, small_tokenizer
from wenzhen.training.memory import Shape, activation_bytes, is_out_of_memory, memory_advice

SHAPE = Shape(pairs=16, question_length=40, answer_length=48)


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


def kept_bytes(model, element_type) -> int:
    """Return the bytes of all tensors that the forward pass keeps for the backward pass, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    questions = torch.randint(4, 100, (SHAPE.pairs, SHAPE.question_length))
    answers = torch.randint(4, 100, (SHAPE.pairs, SHAPE.answer_length))
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=element_type == torch.bfloat16),
    ):
        output = model(input_ids=questions, labels=answers, loss_only=True)
    assert output.loss.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("element_type", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_estimate_is_near_what_is_kept(tokenizer, attention: str, element_type: torch.dtype) -> None:
    model = small_model(tokenizer, d_model=64, d_ff=256, encoder_layers=3, decoder_layers=3, dropout=0.1).train()
    model.set_attn_implementation(attention)
    estimate = activation_bytes(model.config, SHAPE, element_type.itemsize)
    assert kept_bytes(model, element_type) == pytest.approx(estimate, rel=0.3)


def test_checkpointing_keeps_the_layers_inputs_and_one_layer(tokenizer) -> None:
    config = small_model(tokenizer, d_model=64, d_ff=256, encoder_layers=12, decoder_layers=12).config
    whole, checkpointed = (activation_bytes(config, SHAPE, 4, checkpointing) for checkpointing in (False, True))
    inputs = 12 * 16 * (40 + 48) * 64 * 4
    assert inputs < checkpointed < inputs + whole / 12


def test_advice_names_settings_and_what_they_save(tokenizer, tmp_path) -> None:
    model = small_model(tokenizer)
    arguments = Seq2SeqTrainingArguments(str(tmp_path), per_device_train_batch_size=16, use_cpu=True)
    used = activation_bytes(model.config, SHAPE, 4)
    advice = memory_advice(model, arguments, SHAPE, None, step=7)
    assert advice.startswith("out of memory in step 7, with a batch of 16 pairs of 40 + 48 tokens: ")
    assert f"outputs take about {used / 1e6:.1f} MB" in advice
    halved = "training.per_device_train_batch_size=8 with training.gradient_accumulation_steps=2"
    # Everything that is counted is proportional to the pairs.
    assert f"{halved} saves {used / 2e6:.1f} MB at the same result" in advice
    assert "training.activation_checkpointing=true saves" in advice
    assert "data.max_answer_length=24 saves" in advice
    by_tokens = memory_advice(model, arguments, SHAPE, 2048, step=7)
    assert "training.max_tokens_per_batch=1024 with training.gradient_accumulation_steps=2 saves" in by_tokens


def test_what_counts_as_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60)
    assert is_out_of_memory(refused.value)
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
