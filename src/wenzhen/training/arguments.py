"""A recipe's training settings as transformers' arguments."""

from pathlib import Path

import torch
from transformers import Seq2SeqTrainingArguments

from wenzhen.models import CHECKPOINTS
from wenzhen.recipe import Recipe

# Settings that transformers has none of, or means otherwise.
OWN_SETTINGS = ("max_tokens_per_batch", "pad_to_multiple_of", "early_stopping_patience", "report_to")


def training_arguments(recipe: Recipe) -> Seq2SeqTrainingArguments:
    """Translate the recipe's training settings; all but [`OWN_SETTINGS`] have transformers' own names."""
    values = {name: value for name, value in vars(recipe.training).items() if name not in OWN_SETTINGS}
    # transformers takes bf16 on a CPU only where it is told that a CPU is meant.
    values["use_cpu"] = values["use_cpu"] or not torch.accelerator.is_available()
    if values["bf16"] == "auto":
        values["bf16"] = supports_bf16(values["use_cpu"])
    arguments = Seq2SeqTrainingArguments(
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
        # transformers takes every argument for one that has "label" in its name.
        label_names=["labels"],
        logging_first_step=True,
        logging_nan_inf_filter=False,
        # How long early stopping has waited is part of a checkpoint.
        restore_callback_states_from_checkpoint=True,
        # The run shows its progress itself, and names itself to trackers.
        disable_tqdm=True,
        report_to="none",
        project="wenzhen",
        run_name=Path(recipe.output).name,
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=not values["use_cpu"],
    )
    # One process takes one GPU: several are a matter for `accelerate launch`, not for transformers' DataParallel.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def supports_bf16(use_cpu: bool = False) -> bool:
    """Tell whether the hardware computes bfloat16: a GPU of Ampere or newer, or a CPU with AVX512-BF16 or AMX."""
    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
