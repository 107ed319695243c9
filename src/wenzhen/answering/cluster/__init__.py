"""Answering on several machines with Ray: files of questions, and a service.

Importing this tells a user who has no Ray how to get it.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from wenzhen.errors import UsageError

# Of its own accord Ray reports its use to its makers; it reads this when it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# What Ray reports of its own insides would come between the progress.
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")

try:
    import ray
except ImportError as error:
    raise UsageError('Ray is not installed; install it with: pip install "wenzhen[ray]"') from error


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be part of a Ray cluster while the block runs, or of the one that this process already is part of.

    Args:
        address: `HOST:PORT` of a cluster, `auto` for the one that this machine is in, `local` for one that is started
            on this machine and ends with the block.

    Raises:
        UsageError: there is no such cluster.
    """
    if ray.is_initialized():
        yield
        return
    how = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR", **how)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"no Ray cluster at {address}: {reason(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def reason(error: Exception) -> str:
    """Return what an error of Ray says, without the traces before it."""
    return str(error).strip().splitlines()[-1]


def gpu_share(processes: int) -> float:
    """Return how much of a GPU each of so many processes of the cluster has."""
    gpus = int(ray.cluster_resources().get("GPU", 0))
    return 1 / math.ceil(processes / gpus) if gpus else 0
