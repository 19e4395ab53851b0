"""Work on a GPU as one CUDA graph: recorded once, and then all its kernels are launched by one call.

An update of small models is a thousand kernels of a few microseconds each. Launched one by one from Python they take
ten times as long to launch as to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_REHEARSALS = 3
"""Times that work is done before it is recorded: what is compiled, loaded or allocated by the first call is then there.
"""


class CudaGraph:
    """Work that can be done again and again, each time on what its tensors hold by then.

    Args:
        work: reads and changes tensors that stay where they are, and gives one that it made.
        changed: the tensors that it changes; making a graph leaves them as they were.
        device: a GPU, on which all of that is.
    """

    def __init__(self, work: Callable[[], Tensor], changed: Sequence[Tensor], device: torch.device) -> None:
        self._device = device
        before = [one.detach().clone() for one in changed]
        with torch.cuda.device(device):
            aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # recording wants a stream of its own, and so does what it rests on
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
        """Do the work. What it gives stays until it is done again."""
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._made
