"""The pairs that training is measured on: as long as real consultations, or a user's own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wenzhen.benchmark.subject import SPECIAL_TOKENS
from wenzhen.errors import UsageError
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

# Tokens of a question and of its answer, under the names of a batch.
Pair = dict[str, list[int]]

# Lengths in tokens, the end token included, below which these shares of 4,897 real consultations lie: under the
# character tokenizer, cut at 256 and 512. A question's length and its answer's have little to do with each other
# (correlation 0.05).
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.998, 0.999, 1.0)
QUESTION_LENGTHS = (4, 13, 25, 28, 34, 51, 84, 95, 105, 152, 181, 225, 254, 256)
ANSWER_LENGTHS = (42, 121, 122, 124, 131, 148, 179, 202, 211, 220, 226, 256, 295, 512)
# The pairs that the thesis trained on.
THESIS_PAIRS = 554_469
SEED = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """The pairs of an epoch, whose texts are made or read when they are taken.

    Args:
        origin: where they are from.
        question_lengths: in tokens, `[pairs]`.
        answer_lengths: in tokens, `[pairs]`.
        take: returns pairs by their indices.
    """

    origin: str
    question_lengths: np.ndarray
    answer_lengths: np.ndarray
    take: Callable[[np.ndarray], list[Pair]]


def random_pool(config: WenzhenConfig, count: int = THESIS_PAIRS) -> Pool:
    """Draw pairs with the lengths of real consultations, and tokens that are as unequally frequent as characters.

    The same for the same configuration; a text ends where the model reads no further.
    """
    random = np.random.default_rng(SEED)
    sides = (
        np.interp(random.random(count), SHARES, quantiles).round().astype(int).clip(max=config.max_position_embeddings)
        for quantiles in (QUESTION_LENGTHS, ANSWER_LENGTHS)
    )
    question_lengths, answer_lengths = sides
    tokens = np.arange(len(SPECIAL_TOKENS), config.vocab_size)
    # Zipf's law, flattened for the most frequent (Mandelbrot).
    frequencies = 1 / (np.arange(len(tokens)) + 3.7)
    ceilings = frequencies.cumsum() / frequencies.sum()

    def text(generator: np.random.Generator, length: int) -> list[int]:
        return [*tokens[np.searchsorted(ceilings, generator.random(length - 1))].tolist(), config.eos_token_id]

    def take(indices: np.ndarray) -> list[Pair]:
        pairs = []
        for index in indices:
            generator = np.random.default_rng((SEED, index))
            question, answer = (text(generator, lengths[index]) for lengths in (question_lengths, answer_lengths))
            pairs.append({"input_ids": question, "labels": answer})
        return pairs

    return Pool("random tokens, lengths of real consultations", question_lengths, answer_lengths, take)


def load_pool(dataset: Path, tokenizer: Path) -> tuple[Pool, int]:
    """Take the train split of a dataset, tokenized as `wenzhen train` does.

    Returns:
        The pairs, and how many tokens the tokenizer has.

    Raises:
        UsageError: the folders hold no dataset or tokenizer, or the data libraries are missing.
    """
    try:
        from wenzhen.corpus.loading import load_split
        from wenzhen.tokenization import load_tokenizer
        from wenzhen.training.batching import encode_split
    except ImportError as error:
        raise UsageError(f"--dataset needs the data libraries ({error}); without it, pairs are drawn") from error
    from wenzhen.recipe import Data
    from wenzhen.training.order import pair_lengths

    loaded = load_tokenizer(tokenizer)
    split = encode_split(load_split(dataset, "train"), loaded, Data(dataset=str(dataset), tokenizer=str(tokenizer)))

    def take(indices: np.ndarray) -> list[Pair]:
        columns = split[indices]
        return [
            {"input_ids": question, "labels": answer}
            for question, answer in zip(columns["input_ids"], columns["labels"], strict=True)
        ]

    return Pool(str(dataset), *pair_lengths(split), take), len(loaded)
