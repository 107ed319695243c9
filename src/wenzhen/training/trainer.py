"""The Trainer: transformers', with the exact loss."""

from typing import Any

import numpy as np
import torch
from transformers import EvalPrediction, Seq2SeqTrainer
from transformers.trainer_utils import EvalLoopOutput

from wenzhen.models.likelihood import likelihood_metrics, likelihood_statistics


class WenzhenTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer whose `eval_loss` is the mean over all real tokens, whatever the batches were."""

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


def answer_statistics(logits: tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
    """Reduce a batch's outputs, logits first, to `[batch, 3]` before they are gathered."""
    return likelihood_statistics(logits[0], labels)


def exact_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Sum the statistics of all validation answers up."""
    metrics = likelihood_metrics(np.asarray(prediction.predictions))
    return {"exact_loss": metrics.pop("loss"), **metrics}
