"""`wenzhen` with a model that several processes share (FSDP), on the CPU, where Accelerate would not share it.

Accelerate takes the processes for GPUs, and all that follows is what GPUs get.
"""

from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from wenzhen.cli import entry_point


def initialize(self: AcceleratorState, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
    """Do what the state does for several GPUs."""
    original(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    if fsdp_plugin is not None:
        if self._mixed_precision != "no":
            fsdp_plugin.set_mixed_precision(self._mixed_precision)
        self.fsdp_plugin = fsdp_plugin
        self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP


original = AcceleratorState.__init__
AcceleratorState.__init__ = initialize

if __name__ == "__main__":
    raise SystemExit(entry_point())
