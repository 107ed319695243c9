"""An exported model at work with CTranslate2."""

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig

from wenzhen.answering.decoding import Decoding
from wenzhen.answering.engines.base import Engine
from wenzhen.answering.translator import fitting_batch, start_translator
from wenzhen.errors import UsageError
from wenzhen.models import EXPORTED_WEIGHTS

# How the weights of each quantization are computed with; a CPU has no float16.
COMPUTE_TYPES = {
    "cpu": {"float32": "float32", "float16": "float32", "int8": "int8_float32"},
    "cuda": {"float32": "float32", "float16": "float16", "int8": "int8_float16"},
}
# Of so many times the beams' number of ended answers the best is taken. With less, some that transformers finds are
# missed; with more, it takes longer for the same.
PATIENCE = 3
# What transformers takes for a setting that is not given.
DEFAULTS = {
    "num_beams": 1,
    "do_sample": False,
    "early_stopping": False,
    "length_penalty": 1.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}
LENGTHS = ("max_new_tokens", "min_new_tokens")


class CTranslate2Engine(Engine):
    """A folder as `wenzhen export` leaves it, loaded on a GPU where there is one; see [`Engine`].

    It takes the settings of transformers' `generate` and writes what PyTorch writes with the same weights, by greedy
    and by beam search; sampling draws by the same law, with other draws. What differs:

    - Beam search goes on until three times as many answers as beams have ended (with `early_stopping`, as many), that
      of transformers until none can overtake the others by its estimate. With a `length_penalty` of 0.75 and 1.0, 399
      and 398 of 400 answers were the same; far beyond, at 50, most differ.
    - Beam search with a repetition penalty, forbidden n-grams or a least length changes the logits before they become
      probabilities, as both do without beams; that of transformers changes the log-probabilities.
    - The repetition penalty spares the start token, which no trained model writes.
    - An answer ends at the last position that the model has; PyTorch fails beyond it.
    - An empty question has an empty answer.
    """

    name = "CTranslate2"
    files = (
        "config.json",
        "generation_config.json",
        EXPORTED_WEIGHTS,
        "shared_vocabulary.json",
        "tokenizer.json",
        "tokenizer_config.json",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # Refuses what is not possible here.
        self.options(self.default_generation_config)

    def load(self, folder: Path) -> int:
        """Load the weights.

        Raises:
            UsageError: the tokens in the folder are not the tokenizer's.
        """
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.max_positions = int(config["max_position_embeddings"])
        self.vocabulary: list[str] = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
        self.ids = {token: index for index, token in enumerate(self.vocabulary)}
        if self.tokenizer.get_vocab() != self.ids:
            raise UsageError(f"the tokens in {folder} are not those of its tokenizer; export the model again")
        self.folder = folder
        # PyTorch brings the libraries that CTranslate2 needs on a GPU.
        self.device = "cuda" if torch.cuda.is_available() and ctranslate2.get_cuda_device_count() else "cpu"
        wanted = COMPUTE_TYPES[self.device].get(config.get("quantization"), "default")
        supported = ctranslate2.get_supported_compute_types(self.device)
        self.compute_type = wanted if wanted in supported else "default"
        self.translator, self.workers = start_translator(folder, self.device, self.compute_type)
        return len(self.vocabulary)

    def generation_config(self, decoding: Decoding | None) -> GenerationConfig:
        """Return the settings to write an answer by; see [`Engine.generation_config`].

        Raises:
            UsageError: see [`options`].
        """
        config = super().generation_config(decoding)
        # Before a word of an answer is written or sent.
        self.options(config)
        return config

    def write(self, questions: list[str], config: GenerationConfig, batch_size: int) -> Iterator[list[int]]:
        """Yield the tokens of each question's answer; see [`Engine.write`]."""
        for tokens, _ in self.write_rated(questions, config, batch_size):
            yield tokens

    def write_rated(
        self, questions: list[str], config: GenerationConfig, batch_size: int
    ) -> Iterator[tuple[list[int], float | None]]:
        """Yield the tokens of each question's answer and their mean log-probability; see [`Engine.write_rated`]."""
        options = {"return_end_token": True, "return_scores": True, **self.options(config)}
        told = chooses_by_probability(config)
        for result in self.results(self.translator.translate_batch, batch_size, options, self.encode(questions)):
            tokens = [self.ids[token] for token in result.hypotheses[0]]
            # The score is the sum of the log-probabilities over the length to the power of the penalty.
            rated = told and tokens
            yield tokens, result.scores[0] * len(tokens) ** (options["length_penalty"] - 1) if rated else None

    def write_tokens(self, question: str, config: GenerationConfig) -> Generator[int, None, None]:
        """Yield the tokens of one answer; see [`Engine.write_tokens`]."""
        options = self.options(config)
        for beams_only in ("beam_size", "length_penalty", "patience"):
            del options[beams_only]
        (source,) = self.encode([question])
        for step in self.translator.generate_tokens(source, **options):
            yield step.token_id

    def log_probabilities(
        self, inputs: list[list[int]], labels: list[list[int]], batch_size: int
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the log-probabilities of given answers; see [`Engine.log_probabilities`]."""
        end = self.tokenizer.eos_token_id
        # CTranslate2 puts an end token behind every answer; that of a cut one is not measured.
        targets = [ids[:-1] if ids[-1] == end else ids for ids in labels]
        pairs = [self.tokens(ids) for ids in inputs], [self.tokens(ids) for ids in targets]
        results = self.results(self.translator.score_batch, batch_size, {"max_input_length": 0}, *pairs)
        for result, ids in zip(results, labels, strict=True):
            yield np.array(result.log_probs[: len(ids)], dtype=np.float64)

    def seed(self, value: int) -> None:
        """Make what is sampled from here on repeatable; the same questions in the same order get the same answers."""
        ctranslate2.set_random_seed(value)
        # A worker reads the seed when it first draws; of several, chance would decide which takes what.
        self.translator, self.workers = start_translator(self.folder, self.device, self.compute_type, workers=1)

    def encode(self, questions: list[str]) -> list[list[str]]:
        """Return the tokens of questions, cut to what the model reads."""
        return [self.tokens(ids) for ids in self.encoder(questions, self.tokenizer.model_max_length).to_pylist()]

    def tokens(self, ids: list[int]) -> list[str]:
        """Return tokens by their ids."""
        return [self.vocabulary[index] for index in ids]

    def results(
        self, job: Callable[..., list[Any]], batch_size: int, options: dict[str, Any], *columns: list[list[str]]
    ) -> Iterator[Any]:
        """Do a job with rows, one batch for each worker at a time; yield the results in order."""
        rows = len(columns[0])
        batch_size = min(batch_size, fitting_batch(rows, options.get("beam_size", 1), self.device, self.workers))
        batches: deque[list[Any]] = deque()
        for start in range(0, rows, batch_size):
            batch = (column[start : start + batch_size] for column in columns)
            batches.append(job(*batch, asynchronous=True, **options))
            if len(batches) > self.workers:
                yield from awaited(batches.popleft())
        for last in batches:
            yield from awaited(last)

    def options(self, config: GenerationConfig) -> dict[str, Any]:
        """Translate settings of `generate`.

        Raises:
            UsageError: CTranslate2 cannot sample with beams.
        """
        given = {key: getattr(config, key) for key in (*DEFAULTS, *LENGTHS)}
        values = {**DEFAULTS, **{key: value for key, value in given.items() if value is not None}}
        options = {
            "max_input_length": 0,
            "max_decoding_length": min(values["max_new_tokens"], self.max_positions),
            "min_decoding_length": min(values.get("min_new_tokens", 0), values["max_new_tokens"], self.max_positions),
            "repetition_penalty": values["repetition_penalty"],
            "no_repeat_ngram_size": min(values["no_repeat_ngram_size"], self.max_positions),
            **beam_options(values),
        }
        return options | self.sampling_options(values) if values["do_sample"] else options

    def sampling_options(self, values: dict[str, Any]) -> dict[str, Any]:
        """Translate settings of sampling."""
        if values["num_beams"] > 1:
            raise UsageError("CTranslate2 samples without beams; set num_beams to 1 or do_sample to false")
        return {
            "sampling_topk": min(values["top_k"], len(self.vocabulary)),
            "sampling_topp": values["top_p"],
            "sampling_temperature": values["temperature"],
        }


def awaited(results: list[Any]) -> Iterator[Any]:
    """Yield results as they come in."""
    for result in results:
        # `result()` would wait too, but not end at Ctrl-C.
        while not result.done():
            time.sleep(0.001)
        yield result.result()


def chooses_by_probability(config: GenerationConfig) -> bool:
    """Tell whether an answer's score is made of the model's own probabilities, unchanged."""
    return not (
        config.do_sample
        or (config.repetition_penalty or 1) != 1
        or config.no_repeat_ngram_size
        or config.min_new_tokens
    )


def beam_options(values: dict[str, Any]) -> dict[str, Any]:
    """Translate settings of beam search."""
    penalty = values["length_penalty"]
    return {
        "beam_size": values["num_beams"],
        # At zero CTranslate2 ends with the first answer; a length to this power is 1.
        "length_penalty": penalty or 1e-12,
        "patience": 1 if values["early_stopping"] else PATIENCE,
    }
