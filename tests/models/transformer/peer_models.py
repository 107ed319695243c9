"""Models and batches for the comparison with other implementations."""

import functools

import torch
from torch import nn

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

VOCAB, PAD = 50, 0
TINY = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "attention_heads": 4,
    "d_ff": 48,
    "max_position_embeddings": 40,
    "dropout": 0.0,
}
SHAPES = {
    "thesis' form": {},
    "more layers below": {"encoder_layers": 3, "decoder_layers": 1},
    "more layers above": {"encoder_layers": 1, "decoder_layers": 3},
    "one head": {"attention_heads": 1},
    "many heads": {"attention_heads": 16, "d_ff": 20},
    "gelu": {"activation_function": "gelu"},
    "silu": {"activation_function": "silu"},
}
THESIS = {
    "vocab_size": 8000,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "attention_heads": 8,
    "d_ff": 2048,
    "max_position_embeddings": 512,
}
ANSWER_LENGTH = 24


def random_model(noise: float = 0.2, **changes) -> WenzhenForConditionalGeneration:
    """A model in eval mode; noise makes its biases and normalizations random too, so that none can hide."""
    torch.manual_seed(0)
    model = WenzhenForConditionalGeneration(WenzhenConfig(**{**TINY, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
    return model


@functools.cache
def trained_model(**changes) -> WenzhenForConditionalGeneration:
    """A model that knows the two answers of [`batch`] by heart."""
    model = random_model(noise=0.0, **changes).train()
    steps = 80
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(steps):
        model(**batch()).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def random_ids(*shape: int, seed: int, vocab_size: int = VOCAB) -> torch.Tensor:
    """Ids of ordinary characters."""
    return torch.randint(4, vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def batch(padding: str = "right", vocab_size: int = VOCAB) -> dict[str, torch.Tensor]:
    """Two questions of 9 and 5 tokens, with answers of 24 and 10 tokens as labels."""
    input_ids = random_ids(2, 9, seed=1, vocab_size=vocab_size)
    short = input_ids[1, :5].clone()
    input_ids[1] = PAD
    input_ids[1, slice(5) if padding == "right" else slice(4, 9)] = short
    labels = random_ids(2, ANSWER_LENGTH, seed=3, vocab_size=vocab_size)
    labels[1, 10:] = -100
    return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long(), "labels": labels}


def thesis_batch() -> dict[str, torch.Tensor]:
    """The batch with the thesis' vocabulary."""
    return batch(vocab_size=THESIS["vocab_size"])


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_near(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
