"""What every engine shares: the tokenizer's work, the order of batches, and text out of growing tokens."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import GenerationConfig

from wenzhen.answering.decoding import Decoding, checked_settings
from wenzhen.errors import UsageError
from wenzhen.models.likelihood import PADDED_LENGTH
from wenzhen.models.loading import check_files, explained_loading
from wenzhen.tokenization import Encoder, load_tokenizer
from wenzhen.tokenization.kinds import BYTES


@dataclass(frozen=True, slots=True)
class Generated:
    """What the model wrote.

    Attributes:
        text: of the answer.
        ended: whether it ended by itself rather than at the length limit.
        probability: by the model alone, the geometric mean over the tokens; None where the engine does not tell while
            it writes, and of an empty answer.
    """

    text: str
    ended: bool
    probability: float | None = field(default=None, compare=False)


class Engine(ABC):
    """A model folder, loaded.

    Args:
        folder: what `wenzhen train` or `wenzhen export` left.

    Raises:
        UsageError: the folder holds no model of this kind, or a damaged one, or its generation_config.json asks for
            what is not possible.
    """

    # Without any of these the folder cannot be loaded.
    files: tuple[str, ...]
    # What computes.
    name: str

    def __init__(self, folder: Path) -> None:
        check_files(folder, self.files)
        with explained_loading(folder):
            self.tokenizer = load_tokenizer(folder)
            vocab_size = self.load(folder)
            self.read_settings(folder / "config.json")
            file = folder / "generation_config.json"
            settings = checked_settings(self.read_settings(file))
            if "max_new_tokens" not in settings:
                raise UsageError(f"the generation setting max_new_tokens is missing in {file}")
            self.default_generation_config = GenerationConfig(**settings, **self.special_ids)
        if len(self.tokenizer) != vocab_size:
            raise UsageError(f"the tokenizer in {folder} has {len(self.tokenizer):,} tokens, its model {vocab_size:,}")
        self.encoder = Encoder(self.tokenizer)
        # Of characters that were met, whether the model knows them.
        self.known: dict[str, bool] = {}
        self.byte_tokens = set(self.tokenizer.convert_tokens_to_ids(list(BYTES))) - {self.tokenizer.unk_token_id}

    @property
    def special_ids(self) -> dict[str, int]:
        """The tokens that begin, end and fill an answer, by transformers' names."""
        return {
            "pad_token_id": self.tokenizer.pad_token_id,
            "bos_token_id": self.tokenizer.bos_token_id,
            "eos_token_id": self.tokenizer.eos_token_id,
            "decoder_start_token_id": self.tokenizer.bos_token_id,
        }

    def read_settings(self, file: Path) -> dict[str, Any]:
        """Read a file of settings, and take the special tokens, which must be the tokenizer's, out of them.

        Raises:
            UsageError: they are others.
        """
        settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        for name, token in self.special_ids.items():
            given = settings.pop(name, None)
            if given not in (None, token, [token]):
                raise UsageError(f"{name} is {given!r} in {file}, but {token} by the tokenizer beside it: correct it")
        return settings

    @abstractmethod
    def load(self, folder: Path) -> int:
        """Load the weights; return how many tokens they know."""

    @abstractmethod
    def write(self, questions: list[str], config: GenerationConfig, batch_size: int) -> Iterator[list[int]]:
        """Yield the tokens of each question's answer, in order, the end token included where it was written."""

    def write_rated(
        self, questions: list[str], config: GenerationConfig, batch_size: int
    ) -> Iterator[tuple[list[int], float | None]]:
        """Yield what [`write`] yields, each with its tokens' mean log-probability; None where only reading tells."""
        for tokens in self.write(questions, config, batch_size):
            yield tokens, None

    @abstractmethod
    def write_tokens(self, question: str, config: GenerationConfig) -> Generator[int, None, None]:
        """Yield the tokens of one answer as they are chosen, without beams; stop choosing when closed."""

    @abstractmethod
    def log_probabilities(
        self, inputs: list[list[int]], labels: list[list[int]], batch_size: int
    ) -> Iterator[NDArray[np.float64]]:
        """Yield for each pair, in order, the log-probability of every label behind those before it.

        Args:
            inputs: token ids of questions, ended.
            labels: token ids of answers, ended or cut; one list for each question, none empty.
            batch_size: pairs at a time at most.
        """

    @abstractmethod
    def seed(self, value: int) -> None:
        """Make what is sampled from here on repeatable; the same number gives the same answers again."""

    @property
    def max_question_length(self) -> int:
        """The longest question that the model reads whole, in tokens, the end token not counted."""
        return int(self.tokenizer.model_max_length) - 1

    def question_length(self, question: str) -> int:
        """Return how many tokens a question has, the end token not counted."""
        _, (length,) = self.encoder.encode([question])
        return int(length) - 1

    def unknown_characters(self, text: str) -> str:
        """Return the characters of a text that the model does not know, each once."""
        characters = dict.fromkeys(text)
        if new := [character for character in characters if character not in self.known]:
            unknown = self.tokenizer.unk_token_id
            rows = self.encoder(new).to_pylist()
            self.known |= {character: unknown not in ids for character, ids in zip(new, rows, strict=True)}
        return "".join(character for character in characters if not self.known[character])

    def generation_config(self, decoding: Decoding | None) -> GenerationConfig:
        """Return the settings to write an answer by; `decoding` None is the model's own way."""
        default = self.default_generation_config
        return default if decoding is None else decoding.applied_to(default)

    def generate(
        self, questions: list[str], decoding: Decoding | None = None, batch_size: int = 64
    ) -> Iterator[tuple[int, Generated]]:
        """Answer questions in batches of similar length.

        Args:
            questions: non-empty texts; what is longer than the model reads is cut off.
            decoding: None for the model's own way.
            batch_size: questions at a time at most.

        Yields:
            The number of a question in `questions` and its answer, longest questions first.
        """
        order = sorted(range(len(questions)), key=lambda index: -len(questions[index]))
        config = self.generation_config(decoding)
        answers = self.write_rated([questions[index] for index in order], config, batch_size)
        for index, (tokens, mean) in zip(order, answers, strict=True):
            text = self.text(tokens)
            probability = math.exp(mean) if text and mean is not None else None
            yield index, Generated(text, self.tokenizer.eos_token_id in tokens[-1:], probability)

    def stream(self, question: str, decoding: Decoding | None = None) -> Generator[str, None, None]:
        """Yield the answer in pieces as it is written; beam search, which rewrites its answer, gives one piece."""
        config = self.generation_config(decoding)
        if (config.num_beams or 1) > 1:
            (tokens,) = self.write([question], config, batch_size=1)
            yield self.text(tokens)
            return
        pending: list[int] = []
        # A reader who leaves early must not keep the model writing.
        with closing(self.write_tokens(question, config)) as written:
            for token in written:
                pending.append(token)
                # A character may take several tokens: single bytes, which are read together, or parts of its bytes.
                if token in self.byte_tokens or (text := self.text(pending)).endswith("\N{REPLACEMENT CHARACTER}"):
                    continue
                pending.clear()
                if text:
                    yield text
        if rest := self.text(pending):
            yield rest

    def score(
        self,
        questions: list[str],
        answers: list[str],
        max_answer_length: int,
        batch_size: int = 64,
        progress: bool = True,
    ) -> NDArray[np.float64]:
        """Measure how probable given answers are.

        Args:
            questions: texts.
            answers: one for each question.
            max_answer_length: in tokens; the rest of an answer is not measured.
            batch_size: pairs at a time at most.
            progress: show it, where there is a terminal.

        Returns:
            `[answers, 3]`, see [`wenzhen.models.likelihood.likelihood_statistics`].
        """
        limits = self.tokenizer.model_max_length, max_answer_length
        inputs, labels = (ids.to_pylist() for ids in self.encoder.pairs(questions, answers, *limits))
        order = sorted(range(len(labels)), key=lambda index: -len(labels[index]))
        rows = self.log_probabilities([inputs[i] for i in order], [labels[i] for i in order], batch_size)
        statistics = np.empty((len(labels), 3))
        shown = tqdm(rows, total=len(order), desc="scoring", unit=" answers", disable=None if progress else True)
        for index, row in zip(order, shown, strict=True):
            statistics[index] = -row.sum(), len(row), -row[:PADDED_LENGTH].sum()
        return statistics

    def text(self, tokens: list[int]) -> str:
        """Return the text of an answer's tokens."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))
