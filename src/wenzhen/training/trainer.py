"""The Trainer: transformers', with the exact loss."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from torch import nn
from torch.utils.data import DataLoader
from transformers import EvalPrediction
from transformers.trainer_utils import EvalLoopOutput

from wenzhen.models.likelihood import likelihood_metrics, likelihood_statistics
from wenzhen.training.durable import DurableTrainer, start_worker
from wenzhen.training.order import Order, StepSampler, pair_lengths, training_order


class WenzhenTrainer(DurableTrainer):
    """A Seq2SeqTrainer whose `eval_loss` is the mean over all real tokens, whatever the batches were."""

    def __init__(self, *args: Any, order: Order | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order = training_order(self.train_dataset, self.args) if order is None else order
        if self.args.device.type == "cpu" and self.model._supports_sdpa:
            # Several times as fast there as PyTorch's fused attention, whose backward pass is slow.
            self.model.set_attn_implementation("eager")
        # What is not computed has no fixed shape: nothing for a compiler.
        self.skips_padding = not self.args.torch_compile
        if self.skips_padding:
            self.label_smoother = None

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Have the model compute nothing but the loss while it learns."""
        if model.training and self.skips_padding:
            inputs = {**inputs, "loss_only": True, "label_smoothing": self.args.label_smoothing_factor}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader:
        """Return this process' forward passes, as the order shares them out: nothing is left for Accelerate to share.

        Where the order leaves a process without a pair, the collator gets one without a label, which adds nothing to a
        loss that is a sum over labels; the process takes part in what all processes do together.
        """
        arguments = self.args
        no_label = [-100] if self.model.can_generate() else -100
        filler = {"input_ids": [self.model.config.eos_token_id], "labels": no_label}
        loader = DataLoader(
            self.train_dataset,
            batch_sampler=StepSampler(
                self.order, arguments.process_index, arguments.world_size, arguments.gradient_accumulation_steps
            ),
            collate_fn=partial(collate_or_fill, self.data_collator, filler),
            num_workers=arguments.dataloader_num_workers,
            pin_memory=arguments.dataloader_pin_memory,
            persistent_workers=arguments.dataloader_persistent_workers,
            multiprocessing_context=arguments.dataloader_multiprocessing_context,
            prefetch_factor=arguments.dataloader_prefetch_factor,
            in_order=arguments.dataloader_in_order,
            worker_init_fn=partial(
                start_worker, num_workers=arguments.dataloader_num_workers, rank=arguments.process_index
            ),
            # Its own, so that a loader that is begun once more, as after an interruption, draws from no other.
            generator=torch.Generator().manual_seed(arguments.seed),
        )
        return prepare_data_loader(
            loader,
            self.accelerator.device,
            num_processes=1,
            process_index=0,
            put_on_device=True,
            non_blocking=self.accelerator.non_blocking,
        )

    def _get_eval_sampler(self, eval_dataset: Any) -> list[int]:
        """Measure pairs of like lengths together: it pads less, and the exact loss is the same in any order."""
        batch = self.args.eval_batch_size * self.args.world_size
        order = Order(*pair_lengths(eval_dataset), seed=self.args.seed, pairs=batch, group_by_length=True)
        # All batches are full but the last one.
        return np.concatenate(sorted(order.epoch(0), key=len, reverse=True)).tolist()

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        """Have FSDP share the model out in a way that changes no number."""
        if not self.is_fsdp_enabled:
            return super()._prepare_for_training(*args, **kwargs)
        # Accelerate would round weights, normalizations, loss and sums of gradients too.
        self.accelerator.state.fsdp_plugin.mixed_precision_policy = None
        # It would put the embeddings that it finds by these methods into a unit of their own, where what else uses the
        # same weights would not find them.
        model = self.model
        model.get_input_embeddings = model.get_output_embeddings = lambda: None
        prepared = super()._prepare_for_training(*args, **kwargs)
        del model.get_input_embeddings, model.get_output_embeddings
        return prepared

    def autocast_smart_context_manager(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
        """Compute in bfloat16 where the model is shared, as Accelerate has it elsewhere."""
        if self.is_fsdp_enabled and self.args.bf16:
            return torch.autocast(self.args.device.type, torch.bfloat16)
        return super().autocast_smart_context_manager(*args, **kwargs)

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Take up a run, and do not warn of another batch size: whether the steps are the same was checked."""
        logger = logging.getLogger("transformers.trainer_utils")
        logger.disabled = True
        try:
            return super()._init_training_state(*args, **kwargs)
        finally:
            logger.disabled = False

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of keys that a checkpoint lacks, but not of the other names of tied weights, which are saved once."""
        tied = self.model.all_tied_weights_keys
        load_result.missing_keys[:] = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Put the exact loss in the place of the library's mean of batch means."""
        # Seq2SeqTrainer gathers with the records that fill up the last batch of several processes; they count twice.
        self.gather_function = self.accelerator.gather_for_metrics
        output = super().evaluation_loop(*args, **kwargs)
        prefix = kwargs.get("metric_key_prefix", "eval")
        output.metrics[f"{prefix}_loss"] = output.metrics.pop(f"{prefix}_exact_loss")
        return output


def collate_or_fill(collator: Callable[..., Any], filler: dict[str, Any], pairs: list[dict[str, Any]]) -> Any:
    """Collate pairs, or the filler where there is none."""
    return collator(pairs or [filler])


def answer_statistics(logits: tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
    """Reduce a batch's outputs, logits first, to `[batch, 3]` before they are gathered."""
    return likelihood_statistics(logits[0], labels)


def exact_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Sum the statistics of all validation answers up."""
    metrics = likelihood_metrics(np.asarray(prediction.predictions))
    return {"exact_loss": metrics.pop("loss"), **metrics}


def department_statistics(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Reduce a batch's logits `[batch, num_labels]` to `[batch, 2]` in float64: the negative log-likelihood of each
    label in nats, and whether it is the likeliest one."""
    nll = nn.functional.cross_entropy(logits.float(), labels, reduction="none")
    return torch.stack((nll.double(), (logits.argmax(1) == labels).double()), dim=1)


def department_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Return the means over all validation questions."""
    loss, accuracy = np.asarray(prediction.predictions).mean(0).tolist()
    return {"exact_loss": loss, "accuracy": accuracy}
