"""Recipes: a YAML file and `key=value` overrides become one typed description of a training run.

Every setting is defined here and nowhere else, with its meaning, its default and what it may be. The settings under
`training` carry the names of transformers' `Seq2SeqTrainingArguments` and mean what they mean there.
"""

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from wenzhen.errors import UsageError

RECIPE_FILE = "recipe.yaml"
FAMILIES = ("transformer", "recurrent", "convolutional")
TASKS = ("answer", "department")


@dataclass(frozen=True)
class Bounds:
    """What a number may be: from `minimum` to `maximum`, above `above`, below `below`; or -1 where that means all."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    or_all: bool = False

    def allow(self, value: float) -> bool:
        """Tell whether a value is within the bounds."""
        return (self.or_all and value == -1) or (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = [
            f"{relation} {bound:g}"
            for relation, bound in (
                ("of at least", self.minimum),
                ("above", self.above),
                ("below", self.below),
                ("of at most", self.maximum),
            )
            if bound is not None
        ]
        return " and ".join(words) + (", or -1" if self.or_all else "")


COUNT = Bounds(minimum=1)
BEAMS = Bounds(minimum=1, maximum=1000)
# A length to a greater power is no longer a finite number.
EXPONENT = Bounds(minimum=-50, maximum=50)
COUNT_OR_ALL = Bounds(minimum=1, or_all=True)
NOT_NEGATIVE = Bounds(minimum=0)
POSITIVE = Bounds(above=0)
SHARE = Bounds(minimum=0, below=1)
SEED = Bounds(minimum=0, below=2**32)
TRANSFORMER = ("transformer",)
RECURRENT = ("recurrent",)
ANSWER = ("answer",)


def setting(
    meaning: str,
    default: Any = dataclasses.MISSING,
    bounds: Bounds | None = None,
    families: tuple[str, ...] = FAMILIES,
    tasks: tuple[str, ...] = TASKS,
) -> Any:
    """Define a setting by its meaning, its default (none: it must be given), its bounds, and the networks and tasks
    that have it."""
    if families != FAMILIES:
        meaning = f"({', '.join(families)}) {meaning}"
    if tasks != TASKS:
        meaning = f"(task {', '.join(tasks)}) {meaning}"
    metadata = {"meaning": meaning, "bounds": bounds, "families": families, "tasks": tasks}
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class Data:
    """What the model learns from."""

    dataset: str = setting("dataset folder of build_dataset.py")
    tokenizer: str = setting("tokenizer folder of train_tokenizer.py")
    with_title: bool = setting("put the title before the question", False)
    max_samples: int = setting("train on a random subset of so many pairs; -1 for all", -1, COUNT_OR_ALL)
    max_validation_samples: int = setting(
        "measure the validation loss on a fixed random subset of so many pairs; -1 for all", -1, COUNT_OR_ALL
    )
    max_question_length: int = setting("longest question in tokens; the rest is cut off", 256, Bounds(minimum=2))
    max_answer_length: int = setting(
        "longest answer in tokens; the rest is cut off, and not taught as an end", 512, Bounds(minimum=2), tasks=ANSWER
    )


@dataclass(kw_only=True)
class Model:
    """The network; its shape has the names of the family's configuration class."""

    family: Literal["transformer", "recurrent", "convolutional"] = setting("which network", "transformer")
    d_model: int = setting("width of every layer's output", 512, Bounds(minimum=2))
    encoder_layers: int = setting("layers of the encoder", 6, COUNT)
    decoder_layers: int = setting("layers of the decoder", 6, COUNT, tasks=ANSWER)
    attention_heads: int = setting("heads of every attention", 8, COUNT, TRANSFORMER)
    d_ff: int = setting("inner width of the feed-forward sublayers", 2048, COUNT, TRANSFORMER)
    activation_function: Literal["relu", "gelu", "silu"] = setting(
        "activation of the feed-forward sublayers", "relu", families=TRANSFORMER
    )
    dropout: float = setting("dropout rate", 0.1, SHARE)
    norm: Literal["post", "pre"] = setting(
        "normalization behind each residual sum, or before each sublayer", "post", families=TRANSFORMER
    )
    positions: Literal["sinusoidal", "learned"] = setting(
        "vectors of the positions", "sinusoidal", families=TRANSFORMER
    )
    attention_score: Literal["scaled_dot", "dot", "additive", "bilinear", "none"] = setting(
        "comparison of query and key; all but scaled_dot are slower in a transformer; none is for recurrent alone",
        "scaled_dot",
        families=("transformer", "recurrent"),
    )
    cell: Literal["rnn", "gru", "lstm"] = setting("what is repeated at every token", "lstm", families=RECURRENT)
    bidirectional: bool = setting("read the question from both ends", True, families=RECURRENT)
    kernel_size: int = setting(
        "tokens that a convolution sees; odd", 3, Bounds(minimum=1, maximum=255), ("convolutional",)
    )
    tie_word_embeddings: bool = setting(
        "one embedding for encoder, decoder and output, or one for each", True, tasks=ANSWER
    )
    word_vectors: str | None = setting(
        "file of vectors (word2vec's text format) that the embeddings start with", None, tasks=ANSWER
    )
    from_: str | None = setting(
        "trained model to begin with, a folder or OWNER/NAME on the Hub: the shape is its own, and need not be given",
        None,
    )


@dataclass(kw_only=True)
class Training:
    """How it learns."""

    num_train_epochs: float = setting("passes over the training split", 15.0, POSITIVE)
    max_steps: int = setting(
        "stop after so many optimizer steps, whatever the epochs say; -1 for no limit", -1, COUNT_OR_ALL
    )
    per_device_train_batch_size: int = setting("pairs per device and forward pass", 32, COUNT)
    per_device_eval_batch_size: int = setting("pairs per device when measuring", 32, COUNT)
    gradient_accumulation_steps: int = setting("forward passes per optimizer step", 1, COUNT)
    max_tokens_per_batch: int = setting(
        "tokens per device and forward pass, of questions and answers together, padding counted, in the place of "
        "per_device_train_batch_size, which is not used then; -1 for pairs",
        -1,
        Bounds(minimum=1, maximum=10**9, or_all=True),
    )
    learning_rate: float = setting("largest learning rate", 2e-4, POSITIVE)
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine", "inverse_sqrt"] = setting(
        "course of the learning rate after the warm-up", "constant"
    )
    warmup_steps: float = setting("steps of rising learning rate; below 1 a share of all steps", 0.0, NOT_NEGATIVE)
    adam_beta1: float = setting("Adam's decay of the gradient's mean", 0.9, SHARE)
    adam_beta2: float = setting("Adam's decay of the gradient's square", 0.95, SHARE)
    adam_epsilon: float = setting("Adam's guard against division by zero", 1e-8, NOT_NEGATIVE)
    weight_decay: float = setting("decoupled weight decay; 0 is plain Adam", 0.0, NOT_NEGATIVE)
    max_grad_norm: float = setting("clip the gradient's norm to this; 0 for no clipping", 1.0, NOT_NEGATIVE)
    label_smoothing_factor: float = setting("share of the target spread over the vocabulary", 0.0, SHARE)
    bf16: Literal["auto", True, False] = setting("compute in bfloat16; auto: where the machine has it", "auto")
    activation_checkpointing: bool = setting("recompute activations in the backward pass to save memory", False)
    train_sampling_strategy: Literal["random", "group_by_length"] = setting(
        "order of the pairs; group_by_length puts similar lengths together and pads less", "random"
    )
    pad_to_multiple_of: int = setting(
        "pad lengths to a multiple of this, which makes fewer shapes to compile", 1, Bounds(minimum=1, maximum=4096)
    )
    torch_compile: bool = setting("compile the network; pays on a GPU, with pad_to_multiple_of", False)
    dataloader_num_workers: int = setting(
        "processes that prepare batches; for a fast GPU, on a CPU they take cores from training", 0, NOT_NEGATIVE
    )
    use_cpu: bool = setting("leave a GPU alone", False)
    logging_steps: int = setting("log the training loss every so many steps", 50, COUNT)
    eval_steps: int = setting("measure the validation loss and save a checkpoint every so many steps", 1000, COUNT)
    save_total_limit: int = setting("checkpoints to keep, the best one not counted", 2, COUNT)
    early_stopping_patience: int = setting(
        "stop after so many measurements without a better validation loss; 0 for never", 0, NOT_NEGATIVE
    )
    report_to: Literal["none", "tensorboard", "trackio"] = setting("also log to this, where it is installed", "none")


@dataclass(kw_only=True)
class Generation:
    """How the model answers unless it is asked otherwise."""

    num_beams: int = setting("beams of beam search; 1 is greedy search", 1, BEAMS, tasks=ANSWER)
    length_penalty: float = setting("α in log P / lengthᵅ, the score of a beam", 0.75, EXPONENT, tasks=ANSWER)
    repetition_penalty: float = setting(
        "above 1: make tokens that were used less likely", 1.0, Bounds(minimum=1, maximum=100), tasks=ANSWER
    )
    no_repeat_ngram_size: int = setting(
        "never use an n-gram of this size twice; 0 for no limit", 0, NOT_NEGATIVE, tasks=ANSWER
    )


@dataclass(kw_only=True)
class Evaluation:
    """What is measured when training ends."""

    examples: int = setting(
        "validation questions that the log shows answers to, whenever the validation loss is measured; 0 for none",
        3,
        NOT_NEGATIVE,
        tasks=ANSWER,
    )
    questions: int = setting(
        "validation questions to answer for the model's first metrics; 0 for none", 200, NOT_NEGATIVE
    )


@dataclass(kw_only=True)
class Recipe:
    """One training run."""

    output: str = setting("the model folder to make")
    task: Literal["answer", "department"] = setting(
        "what a question is read for: to write an answer, or to tell its department", "answer"
    )
    seed: int = setting("of initialization, order, dropout: the same seed gives the same numbers", 42, SEED)
    data: Data
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    generation: Generation = field(default_factory=Generation)
    evaluation: Evaluation = field(default_factory=Evaluation)
    # The dotted keys that file and overrides gave: what else stands here is a default.
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def save(self, folder: Path) -> None:
        """Write the resolved recipe as `recipe.yaml`, ready to be trained again."""
        values: dict[str, Any] = {}
        for key, value in self.items():
            _put(values, key, value)
        text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
        (folder / RECIPE_FILE).write_text(text, encoding="utf-8")

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted key and value of every setting that the recipe's network and task have."""
        for key, member, _ in settings():
            section, _, _ = key.rpartition(".")
            if self.model.family in member.metadata["families"] and self.task in member.metadata["tasks"]:
                yield key, getattr(getattr(self, section) if section else self, member.name)


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe.

    Args:
        source: a YAML file, or the name of one in `recipes/`.
        overrides: `key=value` with dotted keys, as `training.learning_rate=1e-3`; they win over the file.

    Raises:
        UsageError: no such file, a key that is unknown, twice or missing, or a value that its setting does not allow.
    """
    path = find_recipe(source)
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_NoDuplicateKeys)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path} is not a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path} is no recipe: expected keys such as output, data, model, training")
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise UsageError(f"an override has the form key=value, got: {override}")
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError) as error:
            raise UsageError(f"the value of {key} is not YAML: {text}") from error
        _put(values, key, value)
    recipe: Recipe = _build(Recipe, values, "")
    given = frozenset(_leaves(values))
    _check_family(recipe.model.family, given)
    _check_task(recipe.task, given)
    check_network(recipe)
    return dataclasses.replace(recipe, given=given)


def _check_family(family: str, given: frozenset[str]) -> None:
    """Refuse settings of other networks."""
    for key, member, _ in settings():
        families = member.metadata["families"]
        if key in given and family not in families:
            raise UsageError(
                f"{key} is a setting of {' and '.join(families)} networks, and the recipe's is {family}; leave it "
                "out, or choose another model.family"
            )


def _check_task(task: str, given: frozenset[str]) -> None:
    """Refuse settings of other tasks."""
    for key, member, _ in settings():
        tasks = member.metadata["tasks"]
        if key in given and task not in tasks:
            raise UsageError(
                f"{key} is a setting of the task {' and '.join(tasks)}, and the recipe's is {task}; leave it out"
            )


def check_network(recipe: Recipe) -> None:
    """Refuse a network that cannot learn the recipe's task.

    Raises:
        UsageError: it cannot.
    """
    if recipe.task == "department" and recipe.model.family not in TRANSFORMER:
        raise UsageError(
            f"the task department takes a transformer, and the recipe's network is {recipe.model.family}; choose "
            "another model.family, or begin with another model"
        )


def shape_settings(family: str, task: str = "answer") -> list[str]:
    """Return the names of the settings that make up a network's shape, as its configuration has them."""
    members = (
        member
        for member in dataclasses.fields(Model)
        if family in member.metadata["families"] and task in member.metadata["tasks"]
    )
    return [member.name for member in members if member.name not in ("family", "word_vectors", "from_")]


def find_recipe(source: str) -> Path:
    """Return the file that a path or a bare name means."""
    candidates = (Path(source), Path("recipes", f"{source}.yaml"))
    for path in candidates:
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in Path("recipes").glob("*.yaml"))) or "none here"
    raise UsageError(f"no recipe {source}; give a YAML file or a name from recipes/ ({known})")


def settings(kind: type = Recipe, prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]", Any]]:
    """Yield every setting's dotted key, field and type."""
    hints = get_type_hints(kind)
    for name, member in _members(kind).items():
        if dataclasses.is_dataclass(hints[member.name]):
            yield from settings(hints[member.name], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", member, hints[member.name]


def _members(kind: Any) -> dict[str, "dataclasses.Field[Any]"]:
    """Return a section's settings and sections by their keys; a key that is a word of Python's ends there with `_`."""
    hints = get_type_hints(kind)
    return {
        member.name.rstrip("_"): member
        for member in dataclasses.fields(kind)
        if "meaning" in member.metadata or dataclasses.is_dataclass(hints[member.name])
    }


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of nested mappings."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


class _NoDuplicateKeys(yaml.SafeLoader):
    """A YAML loader that refuses a key written twice, where PyYAML silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in nested mappings."""
    *sections, name = key.split(".")
    for section in sections:
        inner = values[section] = {} if values.get(section) is None else values[section]
        if not isinstance(inner, dict):
            raise _unknown_key(key)
        values = inner
    values[name] = value


def _unknown_key(key: str) -> UsageError:
    """Word the refusal of a key, with the valid key that looks most like it."""
    keys = [known for known, _, _ in settings()]
    # A setting without its section is the most common slip, so settings and sections are compared by themselves too.
    names = {name: known for known in keys for name in (known.rpartition(".")[2], known)}
    names |= {section: section for section in (known.partition(".")[0] for known in keys)}
    near = difflib.get_close_matches(key, names, n=1) or difflib.get_close_matches(key.rpartition(".")[2], names, n=1)
    hint = f"; did you mean {names[near[0]]}?" if near else f"; the keys are: {', '.join(keys)}"
    return UsageError(f"unknown key {key} in the recipe{hint}")


def _build(kind: Any, values: Any, prefix: str) -> Any:
    """Make a section out of a mapping, checking every key and value."""
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise UsageError(f"{prefix.rstrip('.')} in the recipe must hold keys, got {values!r}")
    hints: dict[str, Any] = get_type_hints(kind)
    members = _members(kind)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in members:
            raise _unknown_key(f"{prefix}{name}")
        member = members[name]
        hint = hints[member.name]
        if dataclasses.is_dataclass(hint):
            arguments[member.name] = _build(hint, value, f"{prefix}{name}.")
        else:
            arguments[member.name] = _convert(f"{prefix}{name}", value, hint, member.metadata["bounds"])
    for name, member in members.items():
        hint = hints[member.name]
        if member.name in arguments:
            continue
        if dataclasses.is_dataclass(hint):
            arguments[member.name] = _build(hint, {}, f"{prefix}{name}.")
        elif member.default is dataclasses.MISSING:
            raise UsageError(f"the recipe lacks {prefix}{name}: {member.metadata['meaning']}")
    return kind(**arguments)


def _convert(key: str, value: Any, hint: Any, bounds: Bounds | None) -> Any:
    """Return `value` as the setting's type."""
    converted: Any = None
    if hint == str | None:
        if value is None:
            return None
        hint = str
    if get_origin(hint) is Literal:
        # `==` alone would take 1 for True.
        converted = next(
            (choice for choice in get_args(hint) if choice == value and type(choice) is type(value)), None
        )
        expected = " or ".join(
            str(choice).lower() if isinstance(choice, bool) else choice for choice in get_args(hint)
        )
    elif hint is bool:
        converted, expected = value if isinstance(value, bool) else None, "true or false"
    elif hint is int:
        converted = value if isinstance(value, int) and not isinstance(value, bool) else None
        expected = "a whole number"
    elif hint is float:
        converted, expected = _number(value), "a number"
    else:
        converted, expected = value if isinstance(value, str) and value else None, "a text"
    if converted is None or (bounds and not bounds.allow(converted)):
        raise UsageError(f"{key} must be {expected}{f' {bounds}' if bounds else ''}, got {value!r}")
    return converted


def _number(value: Any) -> float | None:
    """Return a finite number; YAML 1.1 reads `1e-4` as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) != float("inf") and number == number else None
