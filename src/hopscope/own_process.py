"""Settings of a whole process, made only where the process is our own: the command line's, and workers we start.

They are never made by a user's `import hopscope` or `hs.train`: a notebook's memory and arithmetic are left alone. Only
a run itself has our arithmetic there too, or it would not end in the bits of the command line.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's parameters of mallopt."""

_OBJECTS_BETWEEN_LOOKS = 50_000

_claimed = False


def claim() -> None:
    """Declare that this process runs nothing but hopscope, which leaves few reference cycles, and collect them rarely.

    Looking for them every few hundred objects, as Python does, took an eighth of the time of a search and of an import.
    """
    global _claimed
    _claimed = True
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, 10, 10)


def settle() -> None:
    """Tune a process that was claimed for arithmetic; any other is left as it is.

    It keeps the memory that it frees: a step frees megabytes that the next one needs again, and if they were given back
    to the system they would return page by page and zeroed, which took a fifth of a step's time. And it rounds denormal
    numbers, below 1e-38, to zero: arithmetic on them takes many times as long as on others.
    """
    if not _claimed:
        return
    import torch

    if sys.platform == "linux" and hasattr(c_library := ctypes.CDLL(None), "mallopt"):
        c_library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        c_library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    torch.set_flush_denormal(True)


def flushes_denormals() -> bool:
    """Whether this thread rounds denormal numbers to zero: torch, which is told to, does not tell."""
    return sys.float_info.min / 2 == 0


def flushing_denormals(work: Callable[[], T], threads: int) -> T:
    """What `work` gives where denormal numbers are zero, as `settle` has it; the caller's arithmetic stays as it was.

    Torch's threads belong to the thread that shares out work among them, and keep the arithmetic that it had when they
    began. Work on several of them is done in a thread of its own, then, and theirs end with it.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    import torch

    if flushes_denormals():
        return work()
    if threads == 1:
        torch.set_flush_denormal(True)
        try:
            return work()
        finally:
            torch.set_flush_denormal(False)
    with ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,)) as thread:
        done = thread.submit(work)
        while not wait([done], timeout=0.5).done:  # without an end to it, Windows would hear no order to stop
            pass
        return done.result()
