"""A Trainer that nothing kills for good: it saves whole checkpoints, stops where it can go on, and goes on exactly."""

import errno
import json
import math
import os
import platform
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from safetensors import SafetensorError
from torch import distributed, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader
from transformers import Seq2SeqTrainer, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import SaveStrategy, TrainOutput, seed_worker

from wenzhen.errors import RunError, UsageError
from wenzhen.training.checkpoints import DRAFT, CheckpointFolder, Manifest, Origin, discard, find_fault, megabytes
from wenzhen.training.interruption import Interrupted, Interruption, outlive_interruption
from wenzhen.training.memory import Shape, is_out_of_memory, measuring_advice, memory_advice
from wenzhen.training.order import Order
from wenzhen.training.progress import say

# The loss of the steps since it was last logged, which the Trainer's own state leaves out.
UNLOGGED = "unlogged_loss.json"
# What torch.save says, in a RuntimeError, when the disk takes no more.
TORCH_WRITE_ERRORS = re.compile("PytorchStreamWriter|PyTorchFileWriter|inline_container|iostream|Parent directory")
# What gloo says, in a RuntimeError, when a process it talks to is gone.
LOST_PROCESS = re.compile("Connection (closed|reset) by peer|Broken pipe")
# What PyTorch says when a process that prepares batches is gone.
LOST_WORKER = re.compile("DataLoader worker .* (killed|exited)")
# A message names so many pairs.
NAMED_IDS = 64


class EvaluationStoppedError(Exception):
    """A measurement was left because the run is to stop."""


class DurableTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer with checkpoints that are whole or not at all, and a resumed run that is the same run.

    Args:
        pair_ids: the `id` of every training pair, to name those of a step that went wrong; without, they are numbered.
        content: a hash of what the run learns from and how; only a run of the same goes on from its checkpoints.
    """

    # The subclass makes it.
    order: Order

    def __init__(self, *args: Any, pair_ids: Sequence[str] | None = None, content: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.content = content
        self.pair_ids = pair_ids
        self.checkpoints = CheckpointFolder(Path(self.args.output_dir))
        # Deleting is left to us: the Trainer goes by the time of the folders, and looks into none.
        self.save_total_limit, self.args.save_total_limit = self.args.save_total_limit, None
        self.interruption = Interruption()
        # The signal that all processes know of.
        self.stopped_by = 0
        self.losses: list[torch.Tensor] = []
        self.shape: Shape | None = None
        self.resumed: str | None = None

    def train(self, resume_from_checkpoint: str | None = None, **kwargs: Any) -> TrainOutput:
        """Train.

        Args:
            resume_from_checkpoint: a checkpoint that is known to be whole, the same in every process.

        Raises:
            RunError: the loss is no number any more, or memory or disk are full.
            Interrupted: a signal came, and a checkpoint is saved.
        """
        if self.args.save_strategy == SaveStrategy.NO:
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)
        self._check_folder()
        self.resumed = resume_from_checkpoint
        try:
            with self.interruption.heard():
                output = super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)
        except (RuntimeError, MemoryError) as error:
            if self.shape is not None and is_out_of_memory(error):
                raise RunError(self.memory_advice(self.shape)) from error
            if LOST_WORKER.search(str(error)):
                raise RunError(
                    f"{error} It prepared batches; was there too little memory? Lower "
                    f"training.dataloader_num_workers; {self.checkpoints.what_is_left()}"
                ) from error
            if is_lost_process(error):
                discard(self.checkpoints.draft(self.state.global_step))
                left = self.checkpoints.what_is_left()
                raise RunError(f"another process of the run has ended; its own message says why. {left}") from error
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise RunError(f"{error}; make room. {self.checkpoints.what_is_left()}") from error
        if signal := self._agreed_signal():
            # It came when the last step was done and saved.
            raise Interrupted(signal, self.state.global_step)
        return output

    def memory_advice(self, shape: Shape) -> str:
        """Say which settings to lower after a batch that was too large."""
        model = self.accelerator.unwrap_model(self.model)
        if not model.training:
            return measuring_advice(model.config, self.args, shape)
        tokens = self.order.step_size.get("tokens")
        passes = self.args.gradient_accumulation_steps * self.args.world_size
        return memory_advice(
            model, self.args, shape, None if tokens is None else tokens // passes, self.state.global_step + 1
        )

    def check_start(self, checkpoint: str | None, freed: int = 0) -> None:
        """Refuse what cannot go well before anything is deleted for it.

        Args:
            checkpoint: to go on from, if any.
            freed: bytes that an earlier model will give back.

        Raises:
            UsageError: the checkpoint is that of another run, of one with another global batch, or of one with FSDP
                where this is without.
            RunError: the disk has no room for a checkpoint.
        """
        size = self.expected_size()
        if checkpoint is not None:
            self._check_resumed(Path(checkpoint))
            size = self.checkpoint_size()
        fault = None
        if self.is_world_process_zero():
            try:
                self.checkpoints.check_room(size - freed)
            except RunError as error:
                fault = str(error)
                # The Trainer has made them; what stands in them stays.
                with suppress(OSError):
                    self.checkpoints.folder.rmdir()
                    self.checkpoints.folder.parent.rmdir()
        (fault,) = broadcast_object_list([fault])
        if fault:
            raise RunError(fault)

    # What is saved.

    def _check_folder(self) -> None:
        """Refuse a folder that cannot hold the run's checkpoints before any step is done."""
        folder, size = self.checkpoints.folder, self.checkpoint_size()
        (mark,) = broadcast_object_list([f"{DRAFT}{uuid.uuid4()}"])
        if self.is_world_process_zero():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / mark).touch()
        self.accelerator.wait_for_everyone()
        missing = [place for place in gather_object([None if (folder / mark).exists() else platform.node()]) if place]
        if self.is_world_process_zero():
            discard(folder / mark)
        if missing:
            raise RunError(f"{folder} must be the same folder on every machine; {missing[0]} has another one")
        self.checkpoints.check_room(size)
        # The one being written comes on top of the newest ones and the best one.
        kept = (self.save_total_limit or 1) + 2 - len(self.checkpoints.steps())
        if (room := self.checkpoints.room()) < kept * size and self.is_world_process_zero():
            say(
                f"disk        {folder} has room for {room // size} more checkpoints of about {megabytes(size)}, and "
                f"the run may keep {kept}; make room, or lower training.save_total_limit"
            )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a checkpoint of the step that was just done.

        Raises:
            RunError: it cannot be written; what was saved before is intact.
        """
        step = self.state.global_step
        self.store_flos()
        losses = self.accelerator.gather(self._tr_loss.reshape(1)).tolist()
        self._write(step, lambda: self._write_draft(step, losses))
        self._write(step, lambda: self._publish(step))
        if self.args.should_save:
            self.checkpoints.rotate(self.save_total_limit, self.state.best_global_step)

    def _write_draft(self, step: int, losses: list[float]) -> None:
        """Write this process' files of a checkpoint."""
        draft = self.checkpoints.draft(step)
        draft.mkdir(parents=True, exist_ok=True)
        if self.args.should_save and self.checkpoints.room() < self.checkpoint_size():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folder = str(draft)
        self.save_model(folder, _internal_call=True)
        self._save_optimizer_and_scheduler(folder)
        self._save_scaler(folder)
        self._save_rng_state(folder)
        if self.args.should_save:
            unlogged = {"losses": losses, "logged_step": self._globalstep_last_logged}
            (draft / UNLOGGED).write_text(json.dumps(unlogged), encoding="utf-8")
            for part in (*self.callback_handler.callbacks, self.control):
                if isinstance(part, ExportableState):
                    self.state.stateful_callbacks[type(part).__name__] = part.state()
            # Without a path: the folder may be moved.
            replace(self.state, best_model_checkpoint=None).save_to_json(str(draft / TRAINER_STATE_NAME))

    def _publish(self, step: int) -> None:
        """Make what all processes have written a checkpoint."""
        if self.args.should_save:
            self.checkpoints.publish(step, self.origin())

    def _write(self, step: int, write: Callable[[], None]) -> None:
        """Write to the disk in every process, and fail in all of them where one fails."""
        failure = None
        try:
            write()
        except (OSError, SafetensorError, RuntimeError, CheckpointException) as error:
            if isinstance(error, RuntimeError) and not TORCH_WRITE_ERRORS.search(str(error)):
                raise
            if isinstance(error, CheckpointException):
                # Of all processes, with their tracebacks.
                error, _ = next(iter(error.failures.values()))
            failure = self.checkpoints.explain_failure(step, error, self.checkpoint_size())
            if self.is_fsdp_enabled:
                # The others wait for a part of the weights; no word reaches them.
                discard(self.checkpoints.draft(step))
                raise RunError(failure) from error
        failures = [failure for failure in gather_object([failure]) if failure]
        if failures:
            if self.args.should_save:
                discard(self.checkpoints.draft(step))
            raise RunError(failures[0])

    def origin(self) -> Origin:
        """Describe this run to its checkpoints."""
        return Origin(self.args.world_size, self.is_fsdp_enabled, self.order.step_size, self.content)

    def checkpoint_size(self) -> int:
        """Return the size of a checkpoint in bytes: the last one's or, before the first, what is expected."""
        last = next(self.checkpoints.good_steps(), None)
        if last is not None:
            return Manifest.read(self.checkpoints.place(last)).size
        return self.expected_size()

    def expected_size(self) -> int:
        """Return the size of a checkpoint's largest parts in bytes: the weights and Adam's two averages of each."""
        return 3 * sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())

    # What is loaded.

    def _check_resumed(self, checkpoint: Path) -> None:
        """Refuse a checkpoint that another run than this one would go on from."""
        begun, now = Manifest.read(checkpoint).origin, self.order.step_size
        run = f"the run in {self.checkpoints.folder.parent}"
        if begun.sharded != self.is_fsdp_enabled:
            raise UsageError(f"{run} was begun {'with' if begun.sharded else 'without'} FSDP, and must go on so")
        if begun.content != self.content:
            raise UsageError(
                f"{checkpoint} is of another run: its pairs, its tokens or its settings are not these; restore what "
                "it began with, or start again with --overwrite"
            )
        if begun.global_batch != now:
            before, after = (
                " ".join(f"{number:,} {unit}" for unit, number in batch.items()) for batch in (begun.global_batch, now)
            )
            raise UsageError(
                f"{run} learns from {before} a step, and these settings would give {after}; keep processes x "
                "training.gradient_accumulation_steps x batch as it was"
            )

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Restore the random numbers; of another number of processes each gets those of its seed, step and index."""
        if checkpoint is None or Manifest.read(Path(checkpoint)).origin.processes == self.args.world_size:
            super()._load_rng_state(checkpoint)
        else:
            seeds = np.random.SeedSequence((self.args.seed, self.state.global_step, self.args.process_index))
            set_seed(int(seeds.generate_state(1)[0]))

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Run an epoch, or what an interrupted run had left of it."""
        self._take_up()
        if not self.control.should_training_stop:
            super()._run_epoch(*args, **kwargs)

    def _finalize_training(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """End the run with its best model."""
        self._take_up()
        if self.state.best_global_step is not None:
            self.state.best_model_checkpoint = str(self.checkpoints.place(self.state.best_global_step))
        return super()._finalize_training(*args, **kwargs)

    def _take_up(self) -> None:
        """Restore what the Trainer does not of a resumed run, and do what the interrupted one had still to do."""
        if self.resumed is None:
            return
        checkpoint, self.resumed = self.resumed, None
        unlogged = json.loads((Path(checkpoint) / UNLOGGED).read_text(encoding="utf-8"))
        losses = unlogged["losses"]
        same = len(losses) == self.args.world_size
        # A process' share of the sum, or the mean of all: what is logged is the mean.
        self._tr_loss += losses[self.args.process_index] if same else math.fsum(losses) / len(losses)
        self._globalstep_last_logged = unlogged["logged_step"]
        self._load_rng_state(checkpoint)
        step, state = self.state.global_step, self.state
        # Early stopping, or the last step.
        ended = state.stateful_callbacks["TrainerControl"]["args"]["should_training_stop"]
        self.control.should_training_stop = ended
        measured = any(entry["step"] == step and "eval_loss" in entry for entry in state.log_history)
        if not measured and (step % state.eval_steps == 0 or ended):
            self.control.should_evaluate = self.control.should_save = True
            self._maybe_log_save_evaluate(self._tr_loss, None, self.model, None, state.epoch, None, 0.0)

    def _load_best_model(self) -> None:
        """Load the weights of the best checkpoint that is whole; those of the last step are in memory."""
        losses = {entry["step"]: entry["eval_loss"] for entry in self.state.log_history if "eval_loss" in entry}
        last = self.state.global_step
        chosen = [last]
        if self.is_world_process_zero():
            ranked = sorted(losses, key=lambda step: (losses[step], step))
            faults = (
                (step, None if step == last else find_fault(self.checkpoints.place(step), step)) for step in ranked
            )
            first, fault = next(faults)
            chosen = [first] if fault is None else [step for step, other in faults if other is None][:1]
            if last < self.state.max_steps:
                say(f"stopped early after step {last:,} of {self.state.max_steps:,}: the validation loss fell no more")
            if fault is not None:
                say(
                    f"checkpoint {first}, the best one, is broken: {fault}. The model is that of step {chosen[0]}, "
                    f"with a validation loss of {losses[chosen[0]]:.4f} in the place of {losses[first]:.4f}"
                )
            elif first != last:
                say(f"model of step {first:,}, the best on validation (loss {losses[first]:.4f})")
        (step,) = broadcast_object_list(chosen)
        if step != last:
            self.state.best_model_checkpoint = str(self.checkpoints.place(step))
            super()._load_best_model()

    # What stops a run.

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """Learn from a batch; its loss and its shape are kept until the step is over."""
        self.shape = Shape.of(inputs)
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.losses.append(loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Look at the step before the optimizer takes it. It is the one moment of a step that waits for the device."""
        norm = super()._get_grad_norm(model, grad_norm)
        losses = torch.stack(self.losses)
        self.losses.clear()
        whole = norm.full_tensor() if isinstance(norm, DTensor) else norm
        finite = torch.isfinite(whole) & torch.isfinite(losses).all()
        failed, self.stopped_by = self._largest(~finite, self.interruption.number)
        if failed:
            raise RunError(self._failed_step(losses.tolist(), float(whole)))
        return norm

    def _failed_step(self, losses: list[float], norm: float) -> str:
        """Say which step went wrong, with which pairs: those of the forward passes with a bad loss, or else all."""
        step = self.state.global_step
        pairs = self._forward_passes(step)
        bad = [index for index, loss in enumerate(losses) if not math.isfinite(loss)]
        found = gather_object([(losses[index], pairs[index]) for index in bad])
        everything = gather_object([identity for ids in pairs for identity in ids])
        what = f"the loss became {found[0][0]}" if found else f"the gradient's norm became {norm}"
        ids = [identity for _, ids in found for identity in ids] if found else everything
        named = ", ".join(map(str, ids[:NAMED_IDS])) + (f" and {len(ids) - NAMED_IDS} more" if ids[NAMED_IDS:] else "")
        last = next(self.checkpoints.good_steps(), None)
        kept = "" if last is None else f"; model.from={self.checkpoints.place(last)} begins with the last good weights"
        return (
            f"{what} in step {step + 1}, with the pairs {named}; look at these pairs, and start again with a lower "
            f"training.learning_rate or more training.warmup_steps{kept}"
        )

    def _forward_passes(self, step: int) -> list[list[str]]:
        """Return the ids of the pairs of each of this process' forward passes in a step, counted from 0."""
        epoch, position = divmod(step, len(self.order))
        shares = self.order.share(
            self.order.epoch(epoch)[position], self.args.world_size, self.args.gradient_accumulation_steps
        )
        numbers = [share[self.args.process_index].tolist() for share in shares]
        if self.pair_ids is None:
            return [[f"number {number}" for number in share] for share in numbers]
        return [[self.pair_ids[number] for number in share] for share in numbers]

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Log, measure and save what is due; after a signal save and stop, and leave measuring to the next run."""
        if self.stopped_by:
            self.control.should_evaluate, self.control.should_save = False, True
        due = self.control.should_evaluate or self.control.should_save
        try:
            super()._maybe_log_save_evaluate(*args, **kwargs)
        except EvaluationStoppedError:
            self._save_checkpoint(self.model, None)
        if due:
            # A signal may have come meanwhile.
            self.stopped_by = self._agreed_signal()
        if self.stopped_by:
            raise Interrupted(self.stopped_by, self.state.global_step)

    def prediction_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Measure a batch, unless a signal came while the run measures."""
        if self.is_in_train and self._agreed_signal():
            raise EvaluationStoppedError
        self.shape = Shape.of(inputs)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Measure without touching the random numbers of training."""
        with torch.random.fork_rng(devices=[]):
            return super().evaluate(*args, **kwargs)

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader[Any]:
        """Have the processes that prepare batches to measure outlive a signal too."""
        loader = super().get_eval_dataloader(*args, **kwargs)
        loader.base_dataloader.worker_init_fn = partial(start_worker, num_workers=0, rank=0)
        return loader

    def _agreed_signal(self) -> int:
        """Return the signal that came to any process; 0 if none did."""
        number = self.interruption.number
        return number if self.args.world_size == 1 else self._largest(number)[0]

    def _largest(self, *numbers: Any) -> list[int]:
        """Return the largest of each number over all processes, in one exchange."""
        reduced = torch.stack(
            [torch.as_tensor(number, device=self.args.device, dtype=torch.int64) for number in numbers]
        )
        if self.args.world_size > 1:
            distributed.all_reduce(reduced, op=distributed.ReduceOp.MAX)
        return reduced.tolist()


def is_lost_process(error: BaseException) -> bool:
    """Tell whether an exception says that another process of the run is gone."""
    return isinstance(error, distributed.DistError) or (
        isinstance(error, RuntimeError) and LOST_PROCESS.search(str(error)) is not None
    )


def start_worker(worker_id: int, **seeding: int) -> None:
    """Begin a process that prepares batches."""
    outlive_interruption()
    seed_worker(worker_id, **seeding)
