"""What is measured: a model, its tokenizer and questions for it."""

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from wenzhen.corpus.sample import compose_department
from wenzhen.corpus.schema import DEPARTMENTS
from wenzhen.errors import UsageError
from wenzhen.models import MODEL_FILES
from wenzhen.models.loading import explained_loading, load_model
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
SHAPE = (
    "encoder_layers",
    "decoder_layers",
    "d_model",
    "attention_heads",
    "d_ff",
    "activation_function",
    "vocab_size",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class Subject:
    """A model in eval mode, in float32, on the CPU; `origin` says where its weights come from.

    `questions` are token ids, the end token included.
    """

    model: WenzhenForConditionalGeneration
    tokenizer: PreTrainedTokenizerFast
    questions: list[list[int]]
    origin: str


def random_subject(config: WenzhenConfig, questions: int) -> Subject:
    """Make a model with random weights, and the ids of so many questions."""
    torch.manual_seed(0)
    texts = sample_questions(questions)
    tokenizer = character_tokenizer(texts, config)
    return Subject(
        WenzhenForConditionalGeneration(config).eval(), tokenizer, encoded(tokenizer, texts), "random weights"
    )


def load_subject(folder: Path, questions: int) -> Subject:
    """Load a model folder, and encode so many questions.

    Raises:
        UsageError: the folder is none, or its weights are not those of its configuration.
    """
    missing = [name for name in MODEL_FILES if not (folder / name).is_file()]
    if missing:
        raise UsageError(f"{folder} is no model folder: it lacks {', '.join(missing)}")
    model = load_model(folder, torch.float32)
    with explained_loading(folder, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return Subject(model.eval(), tokenizer, encoded(tokenizer, sample_questions(questions)), str(folder))


def sample_questions(count: int) -> list[str]:
    """Compose questions as the sample corpus has them, the departments in turn; the first are always the same."""
    streams = [compose_department(name, count, random.Random(name)) for name in DEPARTMENTS]
    return [next(streams[index % len(streams)])[2] for index in range(count)]


def encoded(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    """Return the ids of texts, cut where the model reads no further."""
    ids: list[list[int]] = tokenizer(texts, truncation=True)["input_ids"]
    return ids


def character_tokenizer(texts: list[str], config: WenzhenConfig) -> PreTrainedTokenizerFast:
    """Make a tokenizer that knows the characters of some texts and as many tokens as the model's vocabulary has."""
    characters = sorted(set("".join(texts)))
    fillers = (f"<{index}>" for index in range(config.vocab_size))
    tokens = itertools.islice((*SPECIAL_TOKENS, *characters, *fillers), config.vocab_size)
    pad, unk, bos, eos = SPECIAL_TOKENS
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {eos}", special_tokens=[(eos, config.eos_token_id)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        unk_token=unk,
        bos_token=bos,
        eos_token=eos,
        model_max_length=config.max_position_embeddings,
    )


def describe_shape(config: WenzhenConfig) -> dict[str, Any]:
    """Return the settings that say how large a model is."""
    return {name: getattr(config, name) for name in SHAPE}
