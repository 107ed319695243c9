"""`wenzhen info`."""

import argparse
import json
import os
import platform
from importlib import metadata

from wenzhen.cli.arguments import Verbs, add_json

PACKAGES = (
    "wenzhen",
    "torch",
    "transformers",
    "datasets",
    "tokenizers",
    "accelerate",
    "ctranslate2",
    "evaluate",
    "gradio",
)


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser("info", help="say what this machine and installation are, for a bug report")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print versions and hardware."""
    import torch

    from wenzhen.training.arguments import supports_bf16

    accelerator = torch.accelerator.current_accelerator()
    report = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "accelerators": f"{torch.accelerator.device_count()} {accelerator.type}" if accelerator else "none",
        "bf16": supports_bf16(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        print("\n".join(f"{name:<16}{value}" for name, value in report.items()))
    return 0
