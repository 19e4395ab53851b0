"""Settings of a whole process, made only where the process is our own: the command line's, and workers we start.

They are never made by a user's `import hopscope` or `hs.train`: a notebook's memory and arithmetic are left alone.
"""

from __future__ import annotations

import ctypes
import gc
import sys

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
