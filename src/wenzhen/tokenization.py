"""The character tokenizer: every character is a token, one vocabulary for questions and answers.

It is a byte-pair encoder with an empty merge list, which cuts text into characters faster than any pre-tokenizer and
gives the same ids. Text is left as it is: no normalization, so that Chinese punctuation, full-width forms and line
breaks survive.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from wenzhen.errors import UsageError

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIAL_TOKENS = (PAD, UNK, BOS, EOS)


def train_tokenizer(
    texts: Iterable[str], min_frequency: int = 1, vocab_size: int | None = None
) -> PreTrainedTokenizerFast:
    """Make a tokenizer that knows the characters of `texts`.

    Args:
        texts: questions and answers of the training split.
        min_frequency: a rarer character is left out and read as the unknown token.
        vocab_size: the most tokens to keep, the four special ones included; None keeps all.

    Returns:
        A tokenizer whose ids are pad 0, unk 1, bos 2, eos 3, then characters from frequent to rare; it ends every text
        with eos, and reads the special tokens' names inside a text as plain characters.

    Raises:
        UsageError: no character is left.
    """
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    characters = sorted((c for c in counts if counts[c] >= min_frequency), key=lambda c: (-counts[c], c))
    if vocab_size is not None:
        characters = characters[: max(vocab_size - len(SPECIAL_TOKENS), 0)]
    if not characters:
        raise UsageError(
            f"no character of the texts occurs {min_frequency} times or more; lower the minimum frequency"
        )
    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *characters))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNK))
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing(single=f"$A {EOS}", special_tokens=[(EOS, vocabulary[EOS])])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        bos_token=BOS,
        eos_token=EOS,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the tokenizer's files, without what earlier calls set for truncation and padding."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a tokenizer folder or a model folder.

    Raises:
        UsageError: the folder holds none.
    """
    if not (folder / "tokenizer.json").is_file():
        raise UsageError(f"{folder} holds no tokenizer.json; make one with data_scripts/train_tokenizer.py")
    return AutoTokenizer.from_pretrained(folder)


def encode_pairs(
    tokenizer: PreTrainedTokenizerFast,
    questions: list[str],
    answers: list[str],
    max_question_length: int,
    max_answer_length: int,
) -> dict[str, list[list[int]]]:
    """Turn questions and answers into what the model takes.

    A question that is too long keeps its end token. An answer that is too long loses it: an end that was never written
    must not be taught.

    Args:
        tokenizer: of the model.
        questions: texts to read.
        answers: texts to write.
        max_question_length: in tokens, end token included.
        max_answer_length: in tokens, end token included.

    Returns:
        `input_ids` and `labels`, one list of ids each per pair.
    """
    inputs = tokenizer(questions, truncation=True, max_length=max_question_length, return_attention_mask=False)
    # Not verbose: the library would warn that an answer is longer than a question may be.
    labels = tokenizer(answers, truncation=False, return_attention_mask=False, verbose=False)
    return {"input_ids": inputs["input_ids"], "labels": [ids[:max_answer_length] for ids in labels["input_ids"]]}
