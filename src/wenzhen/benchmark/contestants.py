"""Who trains against whom: our Trainer with our model, and transformers' with MarianMTModel.

Each contestant lives in a process of its own, because its peak memory is the process', and because settings of the
libraries that belong to a process are then its alone.
"""

import copy
import gc
import multiprocessing
import os
import resource
import signal
import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    DataCollatorForSeq2Seq,
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from wenzhen.benchmark.pairs import Pair
from wenzhen.benchmark.peer import make_marian
from wenzhen.benchmark.profile import make_profiler, time_by_group
from wenzhen.benchmark.subject import character_tokenizer
from wenzhen.benchmark.work import synchronize
from wenzhen.errors import RunError
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import Data, Recipe, Training
from wenzhen.training.arguments import training_arguments
from wenzhen.training.order import Order, pair_lengths
from wenzhen.training.trainer import WenzhenTrainer

OURS = "ours"
DEFAULTS, EQUAL, SAME_BATCHES = "marian_defaults", "marian_equal", "marian_same_batches"
# What each contestant is called in a table.
NAMES = {
    OURS: "wenzhen",
    DEFAULTS: "MarianMTModel, defaults",
    EQUAL: "MarianMTModel, our settings",
    SAME_BATCHES: "MarianMTModel, our batches",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a contestant is made of.

    Args:
        key: one of [`NAMES`].
        config: of our model, or of the one that the peer is made from.
        training: our settings; of these, the peer under transformers' defaults has the batch size alone.
        folder: where a Trainer may write.
    """

    key: str
    config: WenzhenConfig
    training: Training
    folder: str

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""
        return "cpu" if self.training.use_cpu else "cuda"


@dataclass(frozen=True, slots=True)
class Run:
    """What a contestant did with some pairs.

    Args:
        seconds: from the begin of the first step to the end of the last.
        loss: the mean of all steps.
        first_loss: of the first step, where it was asked for.
        first_grad_norm: likewise.
    """

    seconds: float
    loss: float
    first_loss: float | None
    first_grad_norm: float | None


class GivenOrder(Order):
    """The order that pairs lie in already, as that of our Trainer."""

    def __init__(self, pairs: list[Pair], batch_size: int) -> None:
        self.question_lengths, self.answer_lengths = pair_lengths(pairs)
        self.steps = np.split(np.arange(len(pairs)), range(batch_size, len(pairs), batch_size))

    def __len__(self) -> int:
        return len(self.steps)

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """Return the pairs of each step."""
        return self.steps


class Clock(TrainerCallback):
    """Times the steps of each training, without what comes before the first of them and after the last."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds = 0.0
        self.profiler: torch.profiler.profile | None = None

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start before the first step."""
        if state.global_step == 0:
            synchronize(self.device)
            if self.profiler:
                self.profiler.start()
            self.seconds = -time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stop after the last."""
        if state.global_step == state.max_steps:
            synchronize(self.device)
            self.seconds += time.perf_counter()
            if self.profiler:
                self.profiler.stop()


class Contestant:
    """A model that goes on learning from whatever pairs it is given."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.clock = Clock(setup.device)
        self.memory_before = peak_memory(setup.device)

    @cached_property
    def trainer(self) -> Seq2SeqTrainer:
        """The Trainer with the model, silent and timed; only the newest one of a process may be used."""
        trainer = make_trainer(self.setup)
        for callback in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(callback)
        trainer.add_callback(self.clock)
        return trainer

    def first_step(self, pairs: list[Pair]) -> Run:
        """Take one step on one batch as a twin of this contestant, fresh and without dropout."""
        config = copy.deepcopy(self.setup.config)
        config.dropout = 0.0
        # What is compiled computes the same, some minutes later.
        training = replace(self.setup.training, torch_compile=False)
        twin = Contestant(replace(self.setup, config=config, training=training))
        twin.trainer.args.logging_first_step = True
        return twin.train(pairs)

    def train(self, pairs: list[Pair]) -> Run:
        """Train on every pair once, in this order."""
        self.trainer.train_dataset = pairs
        if isinstance(self.trainer, WenzhenTrainer):
            self.trainer.order = GivenOrder(pairs, self.trainer.args.train_batch_size)
        loss = self.trainer.train().training_loss
        first: dict[str, float] = next((entry for entry in self.trainer.state.log_history if entry["step"] == 1), {})
        return Run(self.clock.seconds, loss, first.get("loss"), first.get("grad_norm"))

    def profile(self, pairs: list[Pair]) -> dict[str, float]:
        """Train on every pair once; see [`time_by_group`]."""
        self.clock.profiler = make_profiler(self.setup.device)
        seconds = self.train(pairs).seconds
        events = self.clock.profiler.key_averages()
        self.clock.profiler = None
        return time_by_group(events, self.setup.device, seconds)

    def memory_mb(self, pairs: list[Pair]) -> float:
        """Return the most memory that training takes on one batch.

        On a GPU that of the tensors there; on a CPU that of this process beyond what it took before there was a model.
        """
        # One pair makes the optimizer's state, which the batch then meets.
        for some in (pairs[:1], pairs):
            self.train(some)
        return (peak_memory(self.setup.device) - self.memory_before) / 2**20


def make_trainer(setup: Setup) -> Seq2SeqTrainer:
    """Build the contestant's model and Trainer; all begin with the same weights."""
    set_seed(0)
    model: PreTrainedModel = WenzhenForConditionalGeneration(setup.config)
    if setup.key != OURS:
        model = make_marian(model)
    tokenizer = character_tokenizer([], setup.config)
    arguments = default_arguments(setup) if setup.key == DEFAULTS else our_arguments(setup)
    multiple = setup.training.pad_to_multiple_of
    collator = DataCollatorForSeq2Seq(
        tokenizer, model=model, pad_to_multiple_of=multiple if multiple > 1 and setup.key != DEFAULTS else None
    )
    common = {"model": model, "args": arguments, "data_collator": collator, "processing_class": tokenizer}
    return WenzhenTrainer(**common, order=GivenOrder([], 1)) if setup.key == OURS else Seq2SeqTrainer(**common)


def default_arguments(setup: Setup) -> Seq2SeqTrainingArguments:
    """Return transformers' own settings; pairs come in random order already."""
    return Seq2SeqTrainingArguments(
        output_dir=setup.folder,
        num_train_epochs=1,
        per_device_train_batch_size=setup.training.per_device_train_batch_size,
        train_sampling_strategy="sequential",
        save_strategy="no",
        use_cpu=setup.training.use_cpu,
    )


def our_arguments(setup: Setup) -> Seq2SeqTrainingArguments:
    """Return what `wenzhen train` gives its Trainer, but for what stops training: measuring and saving. Pairs come in
    their order already, and MarianMTModel takes the same arguments."""
    recipe = Recipe(output=setup.folder, data=Data(dataset="", tokenizer=""), training=setup.training)
    arguments = training_arguments(recipe)
    arguments.train_sampling_strategy = "sequential"
    arguments.eval_strategy = arguments.save_strategy = "no"
    arguments.load_best_model_at_end = False
    return arguments


def peak_memory(device: str) -> int:
    """Return the most bytes that this process has held at a time; on a GPU, those of tensors there.

    What is mapped from files, as the libraries' code, does not count where the system tells it apart.
    """
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values = dict(line.split(":") for line in status.read_text(encoding="utf-8").splitlines())
    peak, files = (int(values[name].split()[0]) for name in ("VmHWM", "RssFile"))
    return (peak - files) * 2**10


class Remote:
    """A contestant in a process of its own; it starts at once and is ready when its first call returns."""

    def __init__(self, setup: Setup) -> None:
        self.key = setup.key
        # The second way reads the libraries once for all; the first leaves a GPU alone until the process has begun.
        context: Any = multiprocessing.get_context("spawn")
        if setup.device == "cpu":
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([__name__])
            # Ctrl-C is for the command alone, which then ends all processes.
            handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
            forkserver.ensure_running()
            signal.signal(signal.SIGINT, handler)
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, setup))
        self.process.start()
        other.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the [`Contestant`].

        Raises:
            RunError: it failed, or its process died.
        """
        try:
            self.connection.send((method, arguments))
            failure, result = self.connection.recv()
        except (EOFError, ConnectionError) as error:
            self.process.join()
            raise RunError(
                f"the process of {NAMES[self.key]} died (exit code {self.process.exitcode}), probably for lack of "
                "memory; lower --batch-size"
            ) from error
        if failure:
            raise RunError(f"{NAMES[self.key]} could not be trained: {failure}")
        return result

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.join(timeout=2)
        self.process.kill()
        self.process.join()


def serve(connection: Connection, setup: Setup) -> None:
    """Answer a [`Remote`] until it hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The workers that prepare batches start as they do in `wenzhen train`, not as this process did.
    multiprocessing.set_start_method(None, force=True)
    # The profiler announces its beginning and end.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    try:
        contestant = Contestant(setup)
        while True:
            method, arguments = connection.recv()
            try:
                connection.send((None, getattr(contestant, method)(*arguments)))
            except Exception as error:
                connection.send((" ".join(str(error).split()) or type(error).__name__, None))
            gc.collect()
    except (EOFError, ConnectionError):
        return
