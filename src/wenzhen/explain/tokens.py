"""Texts as the figures label them: a token each, with the characters that it stands for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wenzhen.answering.answerer import without_controls
from wenzhen.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Of a question or an answer, its end included; more are no picture any more.
MAX_TOKENS = 100


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text's token ids, ended by eos unless it was cut, and a label for each: the characters that it stands for."""

    ids: list[int]
    labels: list[str]

    def first(self, length: int) -> "TokenizedText":
        """Return the text cut to so many tokens."""
        return TokenizedText(self.ids[:length], self.labels[:length])


def normalize(text: str, what: str) -> str:
    """Return a text without control characters and surrounding white space.

    Raises:
        UsageError: nothing is left; `what` names the text.
    """
    text = without_controls(text)
    if not text:
        raise UsageError(f"the {what} is empty; give a sentence")
    return text


def tokenize(tokenizer: "PreTrainedTokenizerFast", text: str) -> TokenizedText:
    """Tokenize a text and label its tokens; an unknown character keeps its own label."""
    encoding = tokenizer(text, return_offsets_mapping=True)
    names = tokenizer.convert_ids_to_tokens(encoding["input_ids"])
    # Tokens that stand for no character, as eos, have an empty span.
    spans = zip(encoding["offset_mapping"], names, strict=True)
    labels = [text[start:end] or name for (start, end), name in spans]
    return TokenizedText(list(encoding["input_ids"]), labels)


def tokenize_within(tokenizer: "PreTrainedTokenizerFast", text: str, what: str, limit: int) -> TokenizedText:
    """Tokenize a text that a figure is to show.

    Args:
        tokenizer: the model's.
        text: a question or an answer.
        what: its name in the refusal.
        limit: of the model, in tokens, end included.

    Raises:
        UsageError: it is longer than the model or the figures allow.
    """
    tokenized = tokenize(tokenizer, text)
    limit = min(limit, MAX_TOKENS)
    if len(tokenized.ids) > limit:
        raise UsageError(
            f"the {what} has {len(tokenized.ids) - 1:,} tokens; a figure of this model shows at most {limit - 1}: "
            "shorten it"
        )
    return tokenized
