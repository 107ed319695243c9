"""Tokenizers in folders, and the special tokens that all of them share."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, processors

from wenzhen.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
# In the order of their ids.
SPECIAL_TOKENS = (PAD, UNK, BOS, EOS)
# What stands in tokenizer_config.json besides the special tokens.
CONFIG_KEYS = {
    "backend",
    "clean_up_tokenization_spaces",
    "is_local",
    "local_files_only",
    "model_max_length",
    "split_special_tokens",
}


def add_special_tokens(backend: Tokenizer) -> Tokenizer:
    """Declare the special tokens, which the vocabulary holds as its first, and end every text with eos."""
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", special_tokens=[(EOS, SPECIAL_TOKENS.index(EOS))]
    )
    return backend


def wrap_tokenizer(backend: Tokenizer) -> "PreTrainedTokenizerFast":
    """Make a tokenizer of transformers, which reads the special tokens' names inside a text as plain characters."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        bos_token=BOS,
        eos_token=EOS,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )


def save_tokenizer(tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Write the tokenizer's files, without what earlier calls set for truncation and padding.

    Nor does what its class has no use for go along from the tokenizer_config.json that it was loaded from, such as the
    name of somebody's code.
    """
    known = CONFIG_KEYS | inspect.signature(type(tokenizer)).parameters.keys()
    tokenizer.init_kwargs = {key: value for key, value in tokenizer.init_kwargs.items() if key in known}
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """Load the tokenizer of a tokenizer folder or a model folder.

    Raises:
        UsageError: the folder holds none, a damaged one, or one that asks for code of its own.
    """
    if not (folder / "tokenizer.json").is_file():
        raise UsageError(f"{folder} holds no tokenizer.json; make one with data_scripts/train_tokenizer.py")
    from transformers import AutoTokenizer

    from wenzhen.models.loading import explained_loading

    with explained_loading(folder, "tokenizer"):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def token_texts(tokenizer: "PreTrainedTokenizerFast") -> Iterator[tuple[int, str]]:
    """Yield ids and texts of all tokens that stand for a text: not special ones, nor single bytes of a character."""
    for token_id in range(len(tokenizer)):
        text = tokenizer.decode([token_id])
        if token_id not in tokenizer.all_special_ids and "\N{REPLACEMENT CHARACTER}" not in text:
            yield token_id, text
