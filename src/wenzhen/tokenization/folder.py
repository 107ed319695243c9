"""Tokenizers in folders, and the special tokens that all of them share."""

from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, processors

from wenzhen.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
# In the order of their ids.
SPECIAL_TOKENS = (PAD, UNK, BOS, EOS)


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
    """Write the tokenizer's files, without what earlier calls set for truncation and padding."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """Load the tokenizer of a tokenizer folder or a model folder.

    Raises:
        UsageError: the folder holds none.
    """
    if not (folder / "tokenizer.json").is_file():
        raise UsageError(f"{folder} holds no tokenizer.json; make one with data_scripts/train_tokenizer.py")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)
