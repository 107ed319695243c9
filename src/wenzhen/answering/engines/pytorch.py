"""A trained model at work with PyTorch."""

from collections.abc import Generator, Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DataCollatorForSeq2Seq, GenerationConfig, StoppingCriteria, StoppingCriteriaList
from transformers.generation import BaseStreamer

from wenzhen.answering.engines.base import Engine
from wenzhen.models import MODEL_FILES
from wenzhen.models.likelihood import token_losses
from wenzhen.models.loading import load_model


class PyTorchEngine(Engine):
    """A model folder as `wenzhen train` leaves it, loaded on a GPU where there is one; see [`Engine`]."""

    name = "PyTorch"
    files = MODEL_FILES

    def load(self, folder: Path) -> int:
        """Load the weights.

        Raises:
            UsageError: see [`load_model`].
        """
        self.device = torch.accelerator.current_accelerator() or torch.device("cpu")
        self.model = load_model(folder).to(self.device).eval()
        return int(self.model.config.vocab_size)

    def write(self, questions: list[str], config: GenerationConfig, batch_size: int) -> Iterator[list[int]]:
        """Yield the tokens of each question's answer; see [`Engine.write`]."""
        for start in range(0, len(questions), batch_size):
            inputs = self.encode(questions[start : start + batch_size])
            with torch.inference_mode():
                answers = self.model.generate(**inputs, generation_config=config)
            # The first token is the start, the last ones are padding behind the end.
            for tokens in answers[:, 1:].tolist():
                end = tokens.index(self.tokenizer.eos_token_id) + 1 if self.tokenizer.eos_token_id in tokens else None
                yield tokens[:end]

    def write_tokens(self, question: str, config: GenerationConfig) -> Generator[int, None, None]:
        """Yield the tokens of one answer; see [`Engine.write_tokens`]."""
        streamer = _TokenStreamer()
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
            yield from streamer
        finally:
            cancelled.set()
            writer.join()
        if failures:
            raise failures[0]

    def log_probabilities(
        self, inputs: list[list[int]], labels: list[list[int]], batch_size: int
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the log-probabilities of given answers; see [`Engine.log_probabilities`]."""
        collate = DataCollatorForSeq2Seq(self.tokenizer, model=self.model)
        rows = [{"input_ids": i, "labels": t} for i, t in zip(inputs, labels, strict=True)]
        for start in range(0, len(rows), batch_size):
            tensors = collate(rows[start : start + batch_size]).to(self.device)
            targets = tensors.pop("labels")
            with torch.inference_mode():
                logits = self.model(**tensors, use_cache=False).logits
                losses = token_losses(logits, targets)
            for row, target in zip(-losses.cpu().numpy(), labels[start : start + batch_size], strict=True):
                yield row[: len(target)]

    def seed(self, value: int) -> None:
        """Make what is sampled from here on repeatable."""
        from transformers import set_seed

        set_seed(value)

    def encode(self, questions: list[str]) -> dict[str, torch.Tensor]:
        """Tokenize questions, `[batch, source_length]`."""
        inputs: dict[str, Any] = self.tokenizer(questions, padding=True, truncation=True, return_tensors="pt").to(
            self.device
        )
        return inputs


class _TokenStreamer(BaseStreamer):
    """Iterates over the tokens of an answer while another thread generates them."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[int | None] = SimpleQueue()
        self.started = False

    def put(self, value: torch.Tensor) -> None:
        # The first token is the start.
        if self.started:
            self.queue.put(int(value))
        self.started = True

    def end(self) -> None:
        self.queue.put(None)

    def __iter__(self) -> Iterator[int]:
        return iter(self.queue.get, None)


class _Cancelled(StoppingCriteria):
    """Ends every answer of the batch once an event is set."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any) -> torch.BoolTensor:
        return torch.full((input_ids.shape[0],), self.event.is_set(), device=input_ids.device)
