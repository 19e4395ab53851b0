"""C that is compiled for the machine at hand, once per machine, in a few seconds, into the user's cache.

Where there is no compiler, or one that fails, torch computes the same instead, and one line says so.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import torch

from hopscope.processes import flushes_denormals

_ANY_ORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
"""Flags that allow sums in any order. Never -ffast-math: it makes the whole process round denormal numbers to zero."""

FLAGS = ("-O3", "-march=native", "-fno-math-errno", *_ANY_ORDER, "-fPIC", "-Wno-psabi")
"""Flags of the compiler."""

_ATTEMPTS = (("-fopenmp",), (), ("-fopenmp", "-U__AVX512BF16__"), ("-U__AVX512BF16__",))
"""Further flags, tried in turn until the library can be loaded: the compiler may lack OpenMP, or what `block_bf16.c`
needs."""

_FUNCTIONS = (b"attention_forward", b"attention_backward", b"attention_edited", b"block_forward_fp32", b"gelu_forward")
"""Names by which our library is recognised."""


@cache
def kernels() -> ctypes.CDLL | None:
    """The library of all C code, from the user's cache or compiled now; None, after a warning, where that fails."""
    if sys.platform == "win32":
        return None
    folder = Path(__file__).parent
    texts = [path for path in sorted(folder.iterdir()) if path.suffix in (".c", ".h")]
    made_from = [*(text.read_text() for text in texts), *FLAGS, platform.machine(), processor()]
    named = os.environ.get("CC", "").strip()
    try:
        path = _cache() / f"kernels-{hashlib.sha256(chr(0).join(made_from).encode()).hexdigest()[:16]}.so"
        known = _loaded(path) if path.exists() else None
        compiler, *options = shlex.split(named or "cc")
        found = shutil.which(compiler)
        if known is not None:
            return known
        if found is None:
            raise OSError(f"CC is {named!r}, and there is no {compiler}" if named else "there is no C compiler, cc")
        # The file is missing, or it is something else.
        _compile([found, *options], [text for text in texts if text.suffix == ".c"], path)
        return _loaded(path)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:  # no home is a RuntimeError
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    """Say once why there are no kernels: a run that is begun without them never has them."""
    if parent_process() is not None:  # the parent process has said it
        return
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
    why = (said.decode(errors="replace").strip() or str(error)).splitlines()[-1]
    logging.getLogger("hopscope").warning(
        f"kernels in C cannot be compiled ({why}): torch computes everything, slower, and runs begun now stay so; let "
        "CC name a C compiler, and XDG_CACHE_HOME a folder to keep them in"
    )


def shared_out(name: str, count: int, *arguments: Any) -> None:
    """Call a kernel for `count` items, shared out among torch's threads.

    With OpenMP this is one call, which shares the items out itself to torch's threads. These spin while they wait for
    work, so with further threads of our own, two would compete for each core.

    Args:
        name: name of the kernel; it takes the first item, the one after the last, the number of threads, and the
            arguments.
        count: number of items; with 0 nothing is called.
        arguments: further arguments, of types that ctypes takes.
    """
    library, threads = kernels(), min(torch.get_num_threads(), count)
    assert library is not None
    kernel = getattr(library, name)

    def run(first: int, end: int, threads: int) -> None:
        kernel(ctypes.c_int64(first), ctypes.c_int64(end), threads, *arguments)

    if threads == 1 or (threads and library.threads_here()):
        run(0, count, threads)
    elif threads:
        size = -(-count // threads)
        pool = _threads(threads, flushes_denormals())
        list(pool.map(lambda first: run(first, min(first + size, count), 1), range(0, count, size)))


@cache
def _threads(count: int, flushing: bool) -> ThreadPoolExecutor:
    """Threads with the arithmetic settings of the thread that starts them."""
    return ThreadPoolExecutor(count)


def _loaded(path: Path) -> ctypes.CDLL | None:
    """The library in a file; None, and not loaded, where our functions are not in it: once loaded, it would stay under
    that name."""
    data = path.read_bytes()
    if not all(name in data for name in _FUNCTIONS):
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def _compile(compiler: Sequence[str], sources: Sequence[Path], path: Path) -> None:
    """Compile the sources in parallel, beside the target, and rename the result, so that no half file is loaded."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        made = Path(folder) / path.name

        def run(more: Sequence[str], out: Path, *sources: Path) -> subprocess.CompletedProcess[bytes]:
            command = [*compiler, *FLAGS, *more, "-o", str(out), *map(str, sources), "-lm"]
            return subprocess.run(command, check=False, capture_output=True, timeout=300)

        for more in _ATTEMPTS:
            with ThreadPoolExecutor(len(sources)) as pool:
                done = [*pool.map(partial(run, ("-c", *more)), objects, sources)]
            if not any(result.returncode for result in done):
                done = [run(("-shared", *more), made, *objects)]
            if not any(result.returncode for result in done) and _loaded(made) is not None:
                made.replace(path)
                return
        for result in done:
            result.check_returncode()
        raise OSError("what the compiler makes cannot be loaded")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hopscope"


def processor() -> str:
    """The features that `native` means: two machines that share a home folder must not share the compiled file."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
