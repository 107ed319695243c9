"""How CTranslate2's work is shared out: each batch on one thread, as many batches at a time as there are workers."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctranslate2

# Of answers that grow together, those of different beams counted. More at a time make a core no faster.
CPU_BATCH = 32


def available_cores() -> int:
    """Return how many cores this process may use: those that it is allowed, or fewer where OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(wanted)) if wanted.isdecimal() and int(wanted) else cores


def start_translator(
    folder: Path, device: str, compute_type: str, workers: int | None = None
) -> "tuple[ctranslate2.Translator, int]":
    """Put the weights of a folder to work.

    Args:
        folder: what a conversion left.
        device: `cpu` or `cuda`.
        compute_type: one that CTranslate2 has for the device.
        workers: batches at a time; None for as many as there are cores, or one on a GPU.

    Returns:
        The translator, and its workers.
    """
    import ctranslate2

    workers = workers or (available_cores() if device == "cpu" else 1)
    # Threads that share one batch wait for each other more than they work.
    translator = ctranslate2.Translator(
        str(folder), device=device, compute_type=compute_type, inter_threads=workers, intra_threads=1
    )
    return translator, workers


def fitting_batch(rows: int, num_beams: int, device: str, workers: int) -> int:
    """Return how many of so many questions a batch should have at most: on a CPU, every worker should have some."""
    if device != "cpu":
        return rows
    return max(1, min(CPU_BATCH // num_beams, math.ceil(rows / workers)))
