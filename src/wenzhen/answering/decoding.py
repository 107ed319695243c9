"""Ways to turn a model's probabilities into an answer."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from wenzhen.errors import UsageError

if TYPE_CHECKING:
    from transformers import GenerationConfig


@dataclass(frozen=True)
class Decoding:
    """Settings of `generate`, by transformers' names.

    `num_beams` 1 is greedy search or, with `do_sample`, sampling from the smallest set of tokens whose probability
    reaches `top_p` after dividing the logits by `temperature`; more beams are beam search with score log P / lengthᵅ,
    α being `length_penalty`.
    """

    num_beams: int = 1
    length_penalty: float = 1.0
    do_sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0

    def applied_to(self, default: "GenerationConfig") -> "GenerationConfig":
        """Return the model's own generation config with this way of decoding in it."""
        from transformers import GenerationConfig

        settings = default.to_dict()
        settings.update(asdict(self))
        if self.num_beams == 1:
            del settings["length_penalty"]
        if not self.do_sample:
            del settings["temperature"], settings["top_p"]
        return GenerationConfig.from_dict(settings)


DECODINGS = {
    "greedy": Decoding(),
    "beam": Decoding(num_beams=4, length_penalty=0.75),
    "sampling": Decoding(do_sample=True, temperature=0.7, top_p=0.9),
}


def decoding_named(name: str | None) -> Decoding | None:
    """Return a way to decode by its name; None stands for the model's own.

    Raises:
        UsageError: there is none of this name.
    """
    if name is None:
        return None
    if name not in DECODINGS:
        raise UsageError(f"no decoding {name}; there are: {', '.join(DECODINGS)}")
    return DECODINGS[name]
