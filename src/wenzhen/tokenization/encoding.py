"""From texts to token ids, many at once."""

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wenzhen.corpus.statistics import CODE_POINTS, code_points
from wenzhen.tokenization.folder import SPECIAL_TOKENS, UNK
from wenzhen.tokenization.kinds import character_backend, numbered
from wenzhen.tokenization.texts import encode_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Encoder:
    """Encodes many texts: the ids are those of the tokenizer's own call, in a fraction of its time.

    Args:
        tokenizer: any tokenizer that [`train_tokenizer`] makes; its state is neither used nor changed.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        self.backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self.backend.no_truncation()
        self.backend.no_padding()
        self.backend.encode_special_tokens = tokenizer.split_special_tokens
        self.eos_token_id = tokenizer.eos_token_id
        self.table = character_table(self.backend)

    def __call__(self, texts: list[str], max_length: int | None = None, *, keep_end: bool = True) -> pa.ListArray:
        """Encode texts, each ended by eos.

        Args:
            texts: any.
            max_length: in tokens, end included; what is beyond is cut off. None for no limit.
            keep_end: whether a text that was cut ends with eos all the same.

        Returns:
            One list of ids (int32) per text.
        """
        ids, lengths = self.encode(texts)
        if max_length is not None and lengths.max(initial=0) > max_length:
            ids, lengths = cut(ids, lengths, max_length)
            if keep_end:
                ids[np.cumsum(lengths) - 1] = self.eos_token_id
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ids, pa.int32()))

    def pairs(
        self, questions: list[str], answers: list[str], max_question_length: int, max_answer_length: int
    ) -> tuple[pa.ListArray, pa.ListArray]:
        """Encode questions and answers as the model takes them, `input_ids` and `labels`.

        A question that is too long keeps its end token. An answer that is too long loses it: an end that was never
        written must not be taught.

        Args:
            questions: texts to read.
            answers: texts to write.
            max_question_length: in tokens, end token included.
            max_answer_length: in tokens, end token included.
        """
        return self(questions, max_question_length), self(answers, max_answer_length, keep_end=False)

    def encode(self, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of all texts, one after the other, each ended by eos, and the texts' lengths in tokens."""
        if self.table is None:
            return encode_texts(self.backend, texts)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        ids = np.insert(self.table[code_points(texts)], np.cumsum(lengths), self.eos_token_id)
        return ids, lengths + 1


def character_table(backend: Tokenizer) -> NDArray[np.int32] | None:
    """Return the id of every code point for a character tokenizer, None for one of another kind.

    Looking ids up in a table is a hundred times as fast as the library, which makes an object of every token.
    """
    wanted = json.loads(character_backend(numbered(SPECIAL_TOKENS)).to_str())
    found = json.loads(backend.to_str())
    vocabulary = found["model"].pop("vocab")
    del wanted["model"]["vocab"]
    if found != wanted or not backend.encode_special_tokens:
        return None
    table = np.full(CODE_POINTS, vocabulary[UNK], dtype=np.int32)
    for token, index in vocabulary.items():
        if len(token) == 1:
            table[ord(token)] = index
    return table


def cut(
    ids: NDArray[np.int32], lengths: NDArray[np.int64], max_length: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Keep the first `max_length` ids of each of several texts whose ids stand one after the other."""
    kept = np.minimum(lengths, max_length)
    places = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return ids[places < np.repeat(kept, lengths)], kept
