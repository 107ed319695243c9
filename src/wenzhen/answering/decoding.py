"""Ways to turn a model's probabilities into an answer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from wenzhen.errors import UsageError
from wenzhen.recipe import BEAMS, COUNT, EXPONENT, NOT_NEGATIVE, Bounds

if TYPE_CHECKING:
    from transformers import GenerationConfig

# Logits that are multiplied or divided by what is far beyond are no longer finite.
FACTOR = Bounds(minimum=0.01, maximum=100)
# What generation_config.json may set, as both engines take it.
SETTINGS: dict[str, tuple[type, Bounds | None]] = {
    "do_sample": (bool, None),
    "early_stopping": (bool, None),
    "length_penalty": (float, EXPONENT),
    "max_new_tokens": (int, COUNT),
    "min_new_tokens": (int, NOT_NEGATIVE),
    "no_repeat_ngram_size": (int, NOT_NEGATIVE),
    "num_beams": (int, BEAMS),
    "repetition_penalty": (float, FACTOR),
    "temperature": (float, FACTOR),
    "top_k": (int, NOT_NEGATIVE),
    "top_p": (float, Bounds(minimum=0.001, maximum=1)),
    "use_cache": (bool, None),
}
# What transformers notes there besides.
NOTES = {"transformers_version", "_from_model_config"}
KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Decoding:
    """Settings of `generate`, by transformers' names.

    `num_beams` 1 is greedy search or, with `do_sample`, sampling from the smallest set of tokens whose probability
    reaches `top_p` after dividing the logits by `temperature`; more beams are beam search with score log P / lengthᵅ,
    α being `length_penalty`. What keeps an answer from repeating itself is the model's own setting where it is None.
    """

    num_beams: int = 1
    length_penalty: float = 1.0
    do_sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None

    def applied_to(self, default: "GenerationConfig") -> "GenerationConfig":
        """Return the model's own generation config with this way of decoding in it.

        Raises:
            UsageError: see [`checked_settings`].
        """
        from transformers import GenerationConfig

        settings = default.to_dict()
        settings.update(checked_settings(asdict(self)))
        if self.num_beams == 1:
            del settings["length_penalty"]
        if not self.do_sample:
            del settings["temperature"], settings["top_p"]
        return GenerationConfig.from_dict(settings)


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of [`SETTINGS`] that are given and not null, numbers as the type that they have there.

    Raises:
        UsageError: a setting is none of them, or its value is not possible.
    """
    checked: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None or name in NOTES:
            continue
        if name not in SETTINGS:
            raise UsageError(f"the generation setting {name} is none of wenzhen's; there are: {', '.join(SETTINGS)}")
        kind, bounds = SETTINGS[name]
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or (bounds and not bounds.allow(value)):
            allowed = f"{KINDS[kind]}{f' {bounds}' if bounds else ''}"
            raise UsageError(f"the generation setting {name} must be {allowed}, got {value!r}")
        checked[name] = kind(value)
    return checked


# Longer than a way to decode with every setting.
LONGEST_NAME = 200
WORDS = {"true": True, "false": False, "none": None}
EXAMPLE = "beam:num_beams=8,length_penalty=1"
DECODINGS = {
    "greedy": Decoding(),
    "beam": Decoding(num_beams=4, length_penalty=0.75),
    "sampling": Decoding(do_sample=True, temperature=0.7, top_p=0.9),
}


def decoding_named(name: str | None) -> Decoding | None:
    """Return a way to decode by its name; None stands for the model's own.

    Args:
        name: one of [`DECODINGS`], or one with settings of its own, as `beam:num_beams=8,length_penalty=1`; `none`
            leaves a setting as it is.

    Raises:
        UsageError: there is none of this name, or a setting is none of [`Decoding`] or not possible.
    """
    if name is None:
        return None
    if len(name) > LONGEST_NAME or not name.isprintable():
        allowed = f"a decoding is named in one line of at most {LONGEST_NAME} printable characters"
        raise UsageError(f"{allowed}, as {EXAMPLE}; got {len(name):,}")
    kind, _, changes = name.partition(":")
    if kind not in DECODINGS:
        raise UsageError(f"no decoding {name}; there are: {', '.join(DECODINGS)}, and {EXAMPLE}")
    settings: dict[str, Any] = {}
    known = [field.name for field in fields(Decoding)]
    for change in filter(None, changes.split(",")):
        key, equals, text = change.partition("=")
        if not equals:
            raise UsageError(f"the decoding {name} has {change}, expected SETTING=VALUE; settings: {', '.join(known)}")
        if key not in known:
            raise UsageError(f"the decoding {name} has no setting {key}; there are: {', '.join(known)}")
        settings[key] = value_of(text.strip())
    return replace(DECODINGS[kind], **checked_settings(settings))


def value_of(text: str) -> bool | int | float | str | None:
    """Return what a setting's text stands for; the text itself where it is neither a word of ours nor a number."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def describe(config: "GenerationConfig") -> str:
    """Say in words how answers are written."""
    beams = config.num_beams or 1
    words = [] if config.do_sample or beams > 1 else ["greedy search"]
    if config.do_sample:
        words.append(f"sampling, temperature {config.temperature or 1:g}, top-p {config.top_p or 1:g}")
    if beams > 1:
        words.append(f"{beams} beams, α {1 if config.length_penalty is None else config.length_penalty:g}")
    if (config.repetition_penalty or 1) != 1:
        words.append(f"repetition penalty {config.repetition_penalty:g}")
    if config.no_repeat_ngram_size:
        words.append(f"no {config.no_repeat_ngram_size}-gram twice")
    return ", ".join(words)
