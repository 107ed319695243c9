"""The model at work: generating answers and scoring given ones with PyTorch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    GenerationConfig,
    StoppingCriteria,
    StoppingCriteriaList,
    TextIteratorStreamer,
)
from transformers.utils import logging

from wenzhen.answering.decoding import Decoding
from wenzhen.errors import UsageError
from wenzhen.models import MODEL_FILES
from wenzhen.models.likelihood import likelihood_statistics
from wenzhen.recipe import RECIPE_FILE
from wenzhen.tokenization import Encoder, load_tokenizer


@dataclass(frozen=True, slots=True)
class Generated:
    """What the model wrote, and whether it ended by itself rather than at the length limit."""

    text: str
    ended: bool


class PyTorchEngine:
    """A model folder, loaded on a GPU where there is one.

    Args:
        folder: a model folder as `wenzhen train` leaves it.

    Raises:
        UsageError: the folder is none.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"no model folder {folder}; make one with: make quickstart, or wenzhen train RECIPE")
        missing = [name for name in MODEL_FILES if not (folder / name).is_file()]
        if missing:
            begun = (folder / RECIPE_FILE).is_file()
            hint = "; its training is unfinished: wenzhen train RECIPE --resume" if begun else ""
            raise UsageError(f"{folder} is no model folder: it lacks {', '.join(missing)}{hint}")
        self.device = torch.accelerator.current_accelerator() or torch.device("cpu")
        # What transformers says while it loads comes between question and answer; what is wrong is said below.
        logging.disable_progress_bar()
        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()
        try:
            self.tokenizer = load_tokenizer(folder)
            model, loading = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
            model.generation_config = GenerationConfig.from_pretrained(folder)
        except Exception as error:
            raise UsageError(f"the model in {folder} cannot be loaded: {' '.join(str(error).split())}") from error
        finally:
            logging.set_verbosity(verbosity)
        # transformers fills what is missing with random weights, which answer fluently too.
        wrong = sorted(key for name in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in loading[name])
        if wrong:
            raise UsageError(
                f"the weights in {folder} are not those of its config.json: {wrong[0]} and {len(wrong) - 1} more"
            )
        if len(self.tokenizer) != model.config.vocab_size:
            raise UsageError(
                f"the tokenizer in {folder} has {len(self.tokenizer):,} tokens, its model {model.config.vocab_size:,}"
            )
        self.model = model.to(self.device).eval()
        self.encoder = Encoder(self.tokenizer)

    @property
    def max_question_length(self) -> int:
        """The longest question that the model reads whole, in tokens, the end token not counted."""
        return int(self.tokenizer.model_max_length) - 1

    def question_length(self, question: str) -> int:
        """Return how many tokens a question has, the end token not counted."""
        return len(self.encoder([question])[0]) - 1

    def generate(
        self, questions: list[str], decoding: Decoding | None = None, batch_size: int = 64
    ) -> Iterator[tuple[int, Generated]]:
        """Answer questions in batches of similar length.

        Args:
            questions: non-empty texts; what is longer than the model reads is cut off.
            decoding: None for the model's own way.
            batch_size: questions at a time.

        Yields:
            The number of a question in `questions` and its answer, batch by batch, longest questions first.
        """
        order = sorted(range(len(questions)), key=lambda index: -len(questions[index]))
        config = self.generation_config(decoding)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            with torch.inference_mode():
                tokens = self.model.generate(**self.encode([questions[i] for i in batch]), generation_config=config)
            texts = self.tokenizer.batch_decode(tokens, skip_special_tokens=True)
            ended = (tokens[:, 1:] == self.tokenizer.eos_token_id).any(dim=1).tolist()
            for index, text, has_ended in zip(batch, texts, ended, strict=True):
                yield index, Generated(text, has_ended)

    def stream(self, question: str, decoding: Decoding | None = None) -> Iterator[str]:
        """Yield the answer in pieces as it is written; beam search, which rewrites its answer, gives one piece."""
        config = self.generation_config(decoding)
        if config.num_beams > 1:
            for _, generated in self.generate([question], decoding):
                yield generated.text
            return
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        cancelled = Event()
        failures: list[BaseException] = []

        def write() -> None:
            try:
                with torch.inference_mode():
                    self.model.generate(
                        **self.encode([question]),
                        generation_config=config,
                        streamer=streamer,
                        stopping_criteria=StoppingCriteriaList([_Cancelled(cancelled)]),
                    )
            except BaseException as error:
                failures.append(error)
                streamer.end()

        writer = Thread(target=write, daemon=True)
        writer.start()
        try:
            yield from (piece for piece in streamer if piece)
        finally:
            # A reader who leaves early must not keep the model writing.
            cancelled.set()
            writer.join()
        if failures:
            raise failures[0]

    def score(
        self, questions: list[str], answers: list[str], max_answer_length: int, batch_size: int = 64
    ) -> np.ndarray:
        """Measure how probable given answers are.

        Args:
            questions: texts.
            answers: one for each question.
            max_answer_length: in tokens; the rest of an answer is not measured.
            batch_size: pairs at a time.

        Returns:
            `[answers, 3]`: see `likelihood_statistics`.
        """
        limits = self.tokenizer.model_max_length, max_answer_length
        inputs, labels = (ids.to_pylist() for ids in self.encoder.pairs(questions, answers, *limits))
        collate = DataCollatorForSeq2Seq(self.tokenizer, model=self.model)
        rows = [{"input_ids": i, "labels": t} for i, t in zip(inputs, labels, strict=True)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["labels"]))
        statistics = np.empty((len(rows), 3))
        progress = tqdm(range(0, len(order), batch_size), desc="scoring", disable=None)
        for start in progress:
            batch = order[start : start + batch_size]
            tensors = collate([rows[i] for i in batch]).to(self.device)
            targets = tensors.pop("labels")
            with torch.inference_mode():
                logits = self.model(**tensors, use_cache=False).logits
            statistics[batch] = likelihood_statistics(logits, targets).cpu().numpy()
        return statistics

    def unknown_characters(self, text: str) -> str:
        """Return the characters of a text that the model does not know, each once."""
        characters = list(dict.fromkeys(text))
        rows = self.encoder(characters).to_pylist()
        unknown = self.tokenizer.unk_token_id
        return "".join(character for character, ids in zip(characters, rows, strict=True) if unknown in ids)

    def encode(self, questions: list[str]) -> dict[str, torch.Tensor]:
        """Tokenize questions, `[batch, source_length]`."""
        inputs: dict[str, Any] = self.tokenizer(questions, padding=True, truncation=True, return_tensors="pt").to(
            self.device
        )
        return inputs

    def generation_config(self, decoding: Decoding | None) -> GenerationConfig:
        """Return the settings for `generate`."""
        default = self.model.generation_config
        return default if decoding is None else decoding.applied_to(default)


class _Cancelled(StoppingCriteria):
    """Ends every answer of the batch once an event is set."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any) -> torch.BoolTensor:
        return torch.full((input_ids.shape[0],), self.event.is_set(), device=input_ids.device)
