"""A recipe's training settings as transformers' arguments."""

import dataclasses
import sys
from pathlib import Path

import torch
from transformers import Seq2SeqTrainingArguments

from wenzhen.models import CHECKPOINTS
from wenzhen.recipe import Recipe


def training_arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
    """Translate the recipe's training settings; their names are transformers' own."""
    values = dataclasses.asdict(recipe.training)
    # transformers takes bf16 on a CPU only where it is told that a CPU is meant.
    values["use_cpu"] = values["use_cpu"] or not torch.accelerator.is_available()
    if values["bf16"] == "auto":
        values["bf16"] = supports_bf16(values["use_cpu"])
    return Seq2SeqTrainingArguments(
        **values,
        output_dir=str(Path(recipe.output) / CHECKPOINTS),
        seed=recipe.seed,
        data_seed=recipe.seed,
        eval_strategy="steps",
        save_strategy="steps",
        save_steps=values["eval_steps"],
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        disable_tqdm=not sys.stderr.isatty(),
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=not values["use_cpu"],
    )


def supports_bf16(use_cpu: bool = False) -> bool:
    """Tell whether the hardware computes bfloat16: a GPU of Ampere or newer, or a CPU with AVX512-BF16 or AMX."""
    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
