"""Work on a GPU as one CUDA graph: recorded once, and then all its kernels are launched by one call.

An update of small models is a thousand kernels of a few microseconds each. Launched one by one from Python they take
ten times as long to launch as to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_REHEARSALS = 3
"""Times that the work runs before it is recorded, so that what its first call compiles, loads or allocates is there."""


def can_record(device: torch.device) -> bool:
    """Whether a device has CUDA graphs."""
    return device.type == "cuda"


class CudaGraph:
    """Work that can be replayed, each time on the current contents of its tensors.

    Args:
        work: reads and changes tensors that stay in place, and returns a tensor that it made.
        changed: the tensors that it changes; constructing the graph leaves them as they were.
        device: the GPU that holds all these tensors.
    """

    def __init__(self, work: Callable[[], Tensor], changed: Sequence[Tensor], device: torch.device) -> None:
        self._device = device
        before = [one.detach().clone() for one in changed]
        with torch.cuda.device(device):
            aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # recording needs a stream of its own, and so does its rehearsal
                for _ in range(_REHEARSALS):
                    work()
            torch.cuda.current_stream().wait_stream(aside)
            with torch.no_grad():
                for one, was in zip(changed, before, strict=True):
                    one.copy_(was)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._made = work()

    def __call__(self) -> Tensor:
        """Replay the work. The next call overwrites the tensor that this one returns."""
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._made
