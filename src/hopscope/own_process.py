"""Settings of a whole process, made only where the process is our own: the command line's, and workers we start.

They are never made under a user's `import hopscope` or `hs.train`: a notebook's memory and arithmetic are not ours.
"""

from __future__ import annotations

import ctypes
import gc
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's names for what mallopt sets."""

_OBJECTS_BETWEEN_LOOKS = 50_000

_claimed = False


def claim() -> None:
    """Say that this process runs nothing but hopscope, which leaves few cycles behind.

    To look for them every few hundred objects, as Python does, took an eighth of a search's time and of an import's.
    """
    global _claimed
    _claimed = True
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, 10, 10)


def settle() -> None:
    """Make a process that was claimed quick at arithmetic; another is left as it is.

    It keeps the memory it frees: a step frees megabytes that the next one asks for again, and given back to the system
    they return page by page and zeroed, which took a fifth of a step's time. And it rounds denormal numbers, below
    1e-38, to zero: arithmetic on them takes many times that on others.
    """
    if not _claimed:
        return
    import torch

    if sys.platform == "linux" and hasattr(c_library := ctypes.CDLL(None), "mallopt"):
        c_library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        c_library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    torch.set_flush_denormal(True)
