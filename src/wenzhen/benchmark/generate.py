"""How fast answers are written: our engines against MarianMTModel of the same shape with the same weights."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from wenzhen.answering.decoding import DECODINGS
from wenzhen.benchmark.backends import Answers, Backend, CTranslate2Backend, Task, TorchBackend
from wenzhen.benchmark.machine import describe_machine, package_versions
from wenzhen.benchmark.peer import make_marian
from wenzhen.benchmark.subject import Subject, describe_shape
from wenzhen.benchmark.timing import alternate, ratio, spread
from wenzhen.errors import UsageError

# The peer's key in a result, and its name.
PEER, PEER_NAME = "marian", "MarianMTModel"
# How many answers, and how long ones, are compared to see whether all backends compute the same.
COMPARED, COMPARED_TOKENS = 32, 64


@dataclass(frozen=True, slots=True)
class Case:
    """So many questions, answered together by a way of [`DECODINGS`]."""

    batch_size: int
    decoding: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and how often.

    Args:
        cases: each is measured by itself.
        new_tokens: of every answer.
        repeats: rounds of every case; each has its own questions.
        device: `cpu` or `cuda`.
        dtype: of the PyTorch models, ours and the peer.
        compute_types: of CTranslate2; each makes a backend of its own.
    """

    cases: tuple[Case, ...]
    new_tokens: int = 128
    repeats: int = 5
    device: str = "cpu"
    dtype: str = "float32"
    compute_types: tuple[str, ...] = ("int8",)

    @property
    def questions(self) -> int:
        """How many questions the plan needs."""
        return max(COMPARED, *(case.batch_size * self.repeats for case in self.cases))


def benchmark_generation(subject: Subject, plan: Plan) -> dict[str, Any]:
    """Let all backends answer the same questions in turn.

    Args:
        subject: with as many questions as the plan needs. Its model moves to the plan's device and dtype.
        plan: what to measure.

    Returns:
        `model`; `equal_answers`, see [`equal_answers`]; `notes`; and `cases`, see [`measure`], each with `machine` and
        `versions`, so that it can stand alone.

    Raises:
        UsageError: the model has no peer or too few positions, or CTranslate2 has no such compute type.
    """
    limit = subject.model.config.max_position_embeddings
    if plan.new_tokens > limit:
        raise UsageError(f"the model has {limit:,} positions: it cannot write {plan.new_tokens:,} tokens")
    # Before the load is our own.
    machine, versions = describe_machine(), package_versions()
    note = why_no_ctranslate2(plan)
    types = () if note else plan.compute_types
    models = [TorchBackend("PyTorch", subject.model), TorchBackend(PEER_NAME, make_marian(subject.model))]
    runs = len(plan.cases) * (len(models) + len(types)) * (plan.repeats + 2)
    with kept_threads(), tempfile.TemporaryDirectory() as folder, tqdm(total=runs, disable=None) as progress:
        ctranslate2 = partial(CTranslate2Backend, Path(folder, "model"), subject.tokenizer, plan.device)
        if not note:
            from wenzhen.answering.conversion import WenzhenConverter

            progress.set_description("converting")
            WenzhenConverter(subject.model, subject.tokenizer, {}).convert(str(Path(folder, "model")))
        for backend in models:
            backend.model.to(plan.device)
        progress.set_description("comparing answers")
        equal = equal_answers([*models, *map(ctranslate2, () if note else ("float32",))], subject.questions, plan)
        for backend in models:
            backend.model.to(getattr(torch, plan.dtype))
        backends: list[Backend] = [*models, *map(ctranslate2, types)]
        cases = [
            {**measure(case, backends, subject.questions, plan, progress), "machine": machine, "versions": versions}
            for case in plan.cases
        ]
    return {
        "model": describe_model(subject),
        "equal_answers": equal,
        "notes": [note] if note else [],
        "cases": cases,
    }


@contextmanager
def kept_threads() -> Iterator[None]:
    """Give PyTorch back the number of threads that it has now."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def why_no_ctranslate2(plan: Plan) -> str | None:
    """Return why CTranslate2 cannot take part, None where it can.

    Raises:
        UsageError: it can, and has no such compute type.
    """
    try:
        import ctranslate2
    except ImportError as error:
        return f"CTranslate2 is left out: {error}"
    if plan.device == "cuda" and not ctranslate2.get_cuda_device_count():
        return "CTranslate2 is left out: it finds no GPU"
    supported = ctranslate2.get_supported_compute_types(plan.device)
    for compute_type in plan.compute_types:
        if compute_type not in supported:
            raise UsageError(
                f"CTranslate2 has no compute type {compute_type} here; there are: {', '.join(sorted(supported))}"
            )
    return None


def equal_answers(backends: list[Backend], questions: list[list[int]], plan: Plan) -> dict[str, float]:
    """Return for every backend the share of greedy answers that are the peer's, token for token.

    The weights are the same and in float32, so what is missing to 1 is the order of sums.
    """
    task = Task(DECODINGS["greedy"], min(plan.new_tokens, COMPARED_TOKENS))
    answers = {backend.name: backend.answer(backend.inputs(questions[:COMPARED]), task) for backend in backends}
    return {name: share_equal(own, answers[PEER_NAME]) for name, own in answers.items() if name != PEER_NAME}


def share_equal(answers: Answers, expected: Answers) -> float:
    """Return the share of answers that are as expected."""
    return sum(own == other for own, other in zip(answers, expected, strict=True)) / len(expected)


def measure(
    case: Case, backends: list[Backend], questions: list[list[int]], plan: Plan, progress: "tqdm[Any]"
) -> dict[str, Any]:
    """Time one case.

    Returns:
        What was asked for; `ours`, the fastest of our engines, and `marian`; `ratio` of the two; `engines`, all of
        ours by name. Of each engine: `tokens_per_second` (the median; `low`, `high`), `threads`, `ratio` (over the
        repeats), `equal_answers` (the share that are the peer's), and what [`profile`] finds.
    """
    task = Task(DECODINGS[case.decoding], plan.new_tokens)
    size = case.batch_size
    asked = [questions[repeat * size : (repeat + 1) * size] for repeat in range(plan.repeats)]
    inputs = {backend.name: [backend.inputs(batch) for batch in asked] for backend in backends}
    progress.set_description(f"batch {size}, {case.decoding}")
    for backend in backends:
        backend.prepare(inputs[backend.name][0], task)
        progress.update()

    answers: dict[str, Answers] = {backend.name: [] for backend in backends}

    def run(backend: Backend, repeat: int) -> None:
        answers[backend.name] += backend.answer(inputs[backend.name][repeat], task)
        progress.update()

    seconds = alternate([partial(run, backend) for backend in backends], plan.repeats)
    rates = {b.name: [size * plan.new_tokens / s for s in own] for b, own in zip(backends, seconds, strict=True)}
    engines = {}
    for backend in backends:
        name = backend.name
        engines[name] = {
            "threads": backend.threads,
            **speed(rates[name]),
            "ratio": {PEER: ratio(rates[name], rates[PEER_NAME])},
            "equal_answers": share_equal(answers[name], answers[PEER_NAME]),
            **profile(backend, inputs[name][0], task),
        }
        progress.update()
    peer = engines.pop(PEER_NAME)
    fastest = max(engines, key=lambda name: engines[name]["tokens_per_second"])
    return {
        **asdict(case),
        "num_beams": task.decoding.num_beams,
        "length_penalty": task.decoding.length_penalty,
        "new_tokens": plan.new_tokens,
        "question_tokens": spread(len(ids) for batch in asked for ids in batch),
        "repeats": plan.repeats,
        "device": plan.device,
        "dtype": plan.dtype,
        "ours": {"engine": fastest, **engines[fastest]},
        PEER: peer,
        "ratio": engines[fastest]["ratio"],
        "engines": engines,
    }


def speed(rates: list[float]) -> dict[str, float]:
    """Return the median rate as `tokens_per_second`, and the extremes as `low` and `high`."""
    found = spread(rates)
    return {"tokens_per_second": found.pop("median"), **found}


def profile(backend: Backend, inputs: Any, task: Task) -> dict[str, Any]:
    """Answer once more: where the `seconds` go, and of PyTorch on a GPU `peak_memory_mb`, weights included."""
    if not isinstance(backend, TorchBackend) or backend.model.device.type != "cuda":
        return {"seconds": backend.time_split(inputs, task)}
    torch.cuda.reset_peak_memory_stats()
    others = torch.cuda.memory_allocated() - backend.model.get_memory_footprint()
    seconds = backend.time_split(inputs, task)
    return {"seconds": seconds, "peak_memory_mb": (torch.cuda.max_memory_allocated() - others) / 2**20}


def describe_model(subject: Subject) -> dict[str, Any]:
    """Return where the weights come from, the shape, and the number of parameters."""
    config = subject.model.config
    parameters = sum(parameter.numel() for parameter in subject.model.parameters())
    return {"weights": subject.origin, **describe_shape(config), "parameters": parameters}
