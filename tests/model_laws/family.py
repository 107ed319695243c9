"""What a family of models says about itself, and what every law builds on: its configurations, models and batches."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

VOCAB, PAD, BOS, EOS = 50, 0, 2, 3

# Values for some fields of a configuration, in a form that can be a key.
Choices = tuple[tuple[str, Any], ...]


class ModelFamily:
    """A family of encoder-decoders with the forward signature and the `generate` of sequence-to-sequence models.

    A law that takes `every` is tried on each combination of `choices`. One that takes `pairwise` costs more: it is
    tried on some combinations of `choices` and `shapes` in which any two values meet. The dearest take `each`, some in
    which every value occurs. One that takes `implementation` too is tried under all `attention_implementations`.

    Attributes:
        config_class, model_class: the family's configuration, and its model with an output layer.
        tiny: fields that make a model small, dropout and size of the vocabulary left out.
        choices: the values, the default first, of every field that changes how the model computes.
        shapes: the same for fields that change its size.
        attentions: the outputs that hold attention weights, each with the field that counts its layers, or with a
            function of the configuration that does.
        attention_implementations: what has to agree with eager attention.
        inapplicable: the laws, by name, that the family cannot be held to, each with the reason.
    """

    config_class: ClassVar[type[PreTrainedConfig]]
    model_class: ClassVar[type[PreTrainedModel]]
    tiny: ClassVar[dict[str, Any]]
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {}
    shapes: ClassVar[dict[str, tuple[Any, ...]]] = {}
    attentions: ClassVar[dict[str, str | Callable[[PreTrainedConfig], int]]] = {}
    attention_implementations: ClassVar[tuple[str, ...]] = ()
    inapplicable: ClassVar[dict[str, str]] = {}

    @classmethod
    def admits(cls, choices: dict[str, Any]) -> bool:
        """Say whether a configuration may combine these choices."""
        return True

    @classmethod
    def read_by_encoder(cls, choices: dict[str, Any], real: torch.Tensor) -> torch.Tensor:
        """Say which of a question's tokens its encoded tokens depend on: all that are real, but for reasons.

        Args:
            choices: of the configuration.
            real: which tokens are real, `[length]`.

        Returns:
            The same for all encoded tokens, `[length]`, or for each, `[length, length]`.
        """
        return real

    @classmethod
    def read_by_decoder(cls, choices: dict[str, Any], real: torch.Tensor) -> torch.Tensor:
        """Say which encoded tokens every token of an answer depends on, as [`read_by_encoder`] does, `[length]`."""
        return real

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for law, reason in cls.inapplicable.items():
            if not callable(getattr(cls, law, None)) or not reason:
                raise TypeError(f"{cls.__name__} declares {law!r} inapplicable: no such law, or no reason.")
            setattr(cls, law, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each law the configurations that it asks for."""
        if "implementation" in metafunc.fixturenames:
            cases = [
                pytest.param(choices, name, id=f"{name_of(choices)}-{name}")
                for choices in combinations({k: v for k, v in self.choices.items() if k != "attn_implementation"})
                for name in self.attention_implementations
                if self.admits({**dict(choices), "attn_implementation": name})
            ]
            metafunc.parametrize(("every", "implementation"), cases)
        elif "every" in metafunc.fixturenames:
            every = [choices for choices in combinations(self.choices) if self.admits(dict(choices))]
            metafunc.parametrize("every", every, ids=name_of)
        for name, strength in (("pairwise", 2), ("each", 1)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, self.covering(strength), ids=name_of)

    @classmethod
    def covering(cls, strength: int) -> list[Choices]:
        """Pick combinations, the defaults first, until any `strength` values that may meet have met."""
        fields = {**cls.choices, **cls.shapes}
        admitted = [choices for choices in combinations(fields) if cls.admits(dict(choices))]
        met = {choices: set(itertools.combinations(choices, strength)) for choices in admitted}
        picked = admitted[:1]
        wanted = set().union(*met.values()) - met[admitted[0]]
        while wanted:
            picked.append(max(admitted, key=lambda choices: len(met[choices] & wanted)))
            wanted -= met[picked[-1]]
        return picked

    @classmethod
    def config(cls, choices: Choices = (), **changes: Any) -> PreTrainedConfig:
        """Return a tiny configuration without dropout."""
        return cls.config_class(**{"vocab_size": VOCAB, "dropout": 0.0, **cls.tiny, **dict(choices), **changes})

    @classmethod
    def new_model(cls, choices: Choices = (), noise: float = 0.2, **changes: Any) -> PreTrainedModel:
        """A tiny model in eval mode; noise makes biases and normalizations random too, so that none can hide."""
        torch.manual_seed(0)
        model = cls.model_class(cls.config(choices, **changes)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * noise)
        return model

    @classmethod
    @functools.cache
    def model(cls, choices: Choices = ()) -> PreTrainedModel:
        """The same, made once for all laws: whoever changes it takes a new one."""
        return cls.new_model(choices)


def combinations(fields: dict[str, tuple[Any, ...]]) -> list[Choices]:
    """Every way to take one value of each field."""
    return list(itertools.product(*([(field, value) for value in values] for field, values in fields.items())))


def name_of(choices: Choices) -> str:
    """Name a test after its configuration."""
    return "-".join(str(value) for _, value in choices) or "default"


def random_ids(*shape: int, seed: int = 1) -> torch.Tensor:
    """Ids of ordinary characters."""
    return torch.randint(4, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def padded(ids: torch.Tensor, length: int, side: str, value: int = PAD) -> torch.Tensor:
    """Fill rows `[batch, shorter]` up to `[batch, length]` on one side."""
    missing = length - ids.shape[1]
    return nn.functional.pad(ids, (missing, 0) if side == "left" else (0, missing), value=value)


def question_batch(side: str = "right") -> dict[str, torch.Tensor]:
    """Three questions of 9, 5 and 7 tokens, padded on one side; on the side `none`, three of 9."""
    lengths = (9, 9, 9) if side == "none" else (9, 5, 7)
    rows = [padded(random_ids(1, length, seed=length + row), 9, side) for row, length in enumerate(lengths)]
    ids = torch.cat(rows)
    masks = {} if side == "none" else {"attention_mask": real(ids)}
    return {"input_ids": ids, **masks}


def answer_batch(side: str = "right") -> dict[str, torch.Tensor]:
    """The decoder's inputs for three answers of 7, 7 and 4 tokens, padded on one side; on `none`, three of 7."""
    lengths = (7, 7, 7) if side == "none" else (7, 7, 4)
    rows = []
    for row, length in enumerate(lengths):
        answer = random_ids(1, length, seed=40 + row)
        answer[0, 0] = BOS
        rows.append(padded(answer, 7, side))
    ids = torch.cat(rows)
    masks = {} if side == "none" else {"decoder_attention_mask": real(ids)}
    return {"decoder_input_ids": ids, **masks}


def labelled_batch() -> dict[str, torch.Tensor]:
    """Three padded questions with answers of 7, 4 and 5 tokens as labels."""
    rows = [padded(random_ids(1, length, seed=50 + length), 7, "right", value=-100) for length in (7, 4, 5)]
    return {**question_batch(), "labels": torch.cat(rows)}


def real(ids: torch.Tensor) -> torch.Tensor:
    """The attention mask of padded ids."""
    return (ids != PAD).long()


def assert_near(actual: torch.Tensor, expected: torch.Tensor, atol: float = 5e-5) -> None:
    """Compare without a relative tolerance."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)
