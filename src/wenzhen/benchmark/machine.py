"""What a figure was measured on: without it, it says nothing."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from wenzhen.answering.translator import available_cores

PACKAGES = ("wenzhen", "torch", "transformers", "ctranslate2")


def describe_machine() -> dict[str, Any]:
    """Return `cpu`, `cores` that this process may use, `memory_gb`, `load` (processes that wanted a core over the last
    minute, so 0 on a quiet machine), `accelerator` (None without one), `platform` and `python`."""
    accelerator = torch.accelerator.current_accelerator()
    return {
        "cpu": cpu_name(),
        "cores": available_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else accelerator and accelerator.type,
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def cpu_name() -> str:
    """Return the processor's name as the system knows it."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a figure depends on; what is not installed is left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
