"""What writes answers: transformers' `generate` over a PyTorch model, and CTranslate2."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from wenzhen.answering.decoding import Decoding
from wenzhen.answering.translator import available_cores, fitting_batch, start_translator
from wenzhen.benchmark.timing import seconds_taken
from wenzhen.benchmark.work import synchronize

Answers = list[list[int]]
# Enough to tell which number of threads is faster.
TRIAL_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Task:
    """How to write: every answer gets exactly `new_tokens` tokens, whatever the model would rather do."""

    decoding: Decoding
    new_tokens: int


class Backend(Protocol):
    """Answers batches of questions; when it returns, the answers are on the CPU."""

    name: str
    threads: int

    def inputs(self, questions: list[list[int]]) -> Any:
        """Put a batch of questions, as token ids, into the form that `answer` takes."""

    def prepare(self, inputs: Any, task: Task) -> None:
        """Get ready for such batches, and set `threads` to what they are answered with."""

    def answer(self, inputs: Any, task: Task) -> Answers:
        """Return the tokens of each answer."""

    def time_split(self, inputs: Any, task: Task) -> dict[str, float]:
        """Answer once more and return where the seconds go."""


class TorchBackend:
    """A PyTorch model under `generate`.

    Args:
        name: shown.
        model: in eval mode. Its own generation config is set aside.
    """

    def __init__(self, name: str, model: PreTrainedModel) -> None:
        self.name = name
        self.model = model
        self.threads = torch.get_num_threads()
        model.generation_config = GenerationConfig()

    def inputs(self, questions: list[list[int]]) -> dict[str, torch.Tensor]:
        """Pad on the right; `input_ids` and `attention_mask` are `[batch, source_length]`."""
        rows = [torch.tensor(ids) for ids in questions]
        pad = self.model.config.pad_token_id
        input_ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        return {"input_ids": input_ids.to(self.model.device), "attention_mask": mask.to(self.model.device)}

    def answer(self, inputs: dict[str, torch.Tensor], task: Task) -> Answers:
        """See [`Backend`]."""
        torch.set_num_threads(self.threads)
        with torch.inference_mode():
            tokens = self.model.generate(**inputs, generation_config=self.settings(task))
        answers: Answers = tokens[:, 1:].tolist()
        return answers

    def settings(self, task: Task) -> GenerationConfig:
        """Return the settings for `generate`."""
        config = self.model.config
        search = {"length_penalty": task.decoding.length_penalty} if task.decoding.num_beams > 1 else {}
        return GenerationConfig(
            min_new_tokens=task.new_tokens,
            max_new_tokens=task.new_tokens,
            num_beams=task.decoding.num_beams,
            do_sample=False,
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
            **search,
        )

    def prepare(self, inputs: dict[str, torch.Tensor], task: Task) -> None:
        """Try numbers of threads, doubling from 1 to all cores, and keep the fastest for short answers."""
        task = Task(task.decoding, min(task.new_tokens, TRIAL_TOKENS))
        if self.model.device.type != "cpu":
            self.answer(inputs, task)
            return
        cores = available_cores()
        candidates = [2**power for power in range(cores.bit_length()) if 2**power < cores] + [cores]
        seconds = {}
        for self.threads in candidates:
            self.answer(inputs, task)
            seconds[self.threads] = min(seconds_taken(partial(self.answer, inputs, task)) for _ in range(2))
        self.threads = min(seconds, key=lambda threads: seconds[threads])

    def time_split(self, inputs: dict[str, torch.Tensor], task: Task) -> dict[str, float]:
        """Return the seconds in `encoder`, `decoder`, `output` (the projection to the vocabulary) and `search`, which
        is all else: choosing tokens, and reordering beams and their caches."""
        parts = {
            "encoder": self.model.get_encoder(),
            "decoder": self.model.get_decoder(),
            "output": self.model.get_output_embeddings(),
        }
        seconds = dict.fromkeys(parts, 0.0)
        hooks = []
        for name, module in parts.items():

            def begin(*_: object, name: str = name) -> None:
                synchronize(self.model.device.type)
                seconds[name] -= time.perf_counter()

            def end(*_: object, name: str = name) -> None:
                synchronize(self.model.device.type)
                seconds[name] += time.perf_counter()

            hooks += [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
        try:
            total = seconds_taken(partial(self.answer, inputs, task))
        finally:
            for hook in hooks:
                hook.remove()
        return {**seconds, "search": total - sum(seconds.values())}


class CTranslate2Backend:
    """A model converted to CTranslate2.

    Args:
        folder: the converted model.
        tokenizer: of the model that was converted.
        device: `cpu` or `cuda`.
        compute_type: one that CTranslate2 has for the device.
    """

    def __init__(self, folder: Path, tokenizer: PreTrainedTokenizerFast, device: str, compute_type: str) -> None:
        self.name = f"CTranslate2 {compute_type}"
        self.tokenizer = tokenizer
        self.device = device
        self.translator, self.workers = start_translator(folder, device, compute_type)
        self.threads = 1

    def inputs(self, questions: list[list[int]]) -> list[list[str]]:
        """Name the tokens."""
        return [self.tokenizer.convert_ids_to_tokens(ids) for ids in questions]

    def prepare(self, inputs: list[list[str]], task: Task) -> None:
        """Warm up; every worker is one thread."""
        self.threads = min(len(inputs), self.workers)
        self.answer(inputs, Task(task.decoding, min(task.new_tokens, TRIAL_TOKENS)))

    def answer(self, inputs: list[list[str]], task: Task) -> Answers:
        """See [`Backend`]."""
        beams = task.decoding.num_beams
        results = self.translator.translate_batch(
            inputs,
            beam_size=beams,
            length_penalty=task.decoding.length_penalty,
            min_decoding_length=task.new_tokens,
            max_decoding_length=task.new_tokens,
            max_batch_size=fitting_batch(len(inputs), beams, self.device, self.workers),
        )
        return [self.tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]

    def time_split(self, inputs: list[list[str]], task: Task) -> dict[str, float]:
        """Return the seconds in `encoder_and_first_token` and in `later_tokens`, search included in both."""
        first, total = (
            min(seconds_taken(partial(self.answer, inputs, part)) for _ in range(3))
            for part in (Task(task.decoding, 1), task)
        )
        return {"encoder_and_first_token": first, "later_tokens": max(total - first, 0.0)}
