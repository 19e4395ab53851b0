"""The memory of this machine, and numbers of bytes in words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hopscope.errors import InputError


def memory() -> int:
    """Bytes of memory in this machine."""
    return 1 << 50 if sys.platform == "win32" else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory() -> int:
    """Bytes of memory that are still available; the whole memory if the system does not say."""
    source = Path("/proc/meminfo")
    lines = source.read_text().splitlines() if source.exists() else []
    free = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return memory() if free is None else 1024 * int(free)


def check_fits(size: int) -> None:
    """Check that `size` bytes fit into this machine's memory.

    Raises:
        InputError: the memory is too small.
    """
    if size > memory():
        raise InputError(
            f"that takes at least {in_words(size)} of memory, and this machine has {in_words(memory())}; ask for less"
        )


def in_words(size: int) -> str:
    """A number of bytes in words, such as `1.5 GB`."""
    power = min((len(str(size)) - 1) // 3 if size < 10**18 else 6, 6)
    return "over 1000 EB" if size >= 10**21 else f"{size / 1000**power:.3g} {['', *'kMGTPE'][power]}B"
