"""C code, compiled for this machine once, in a few seconds, into the user's cache.

If there is no compiler, or if it fails, torch computes the same instead, and a warning says so.
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

from hopscope.kernels.precision import told_by_linux
from hopscope.processes import flushes_denormals

_ANY_ORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
"""Flags that allow sums in any order. Never -ffast-math: it makes the whole process round denormal numbers to zero."""

FLAGS = ("-O3", "-march=native", "-fno-math-errno", *_ANY_ORDER, "-fPIC", "-Wno-psabi")
"""Flags of the compiler."""

_ATTEMPTS = (("-fopenmp",), (), ("-fopenmp", "-U__AVX512BF16__"), ("-U__AVX512BF16__",))
"""Further flags, tried in turn until the library can be loaded: the compiler can lack OpenMP, or the bf16 instructions
of `block_bf16.c`."""

_FUNCTIONS = (b"attention_forward", b"attention_backward", b"attention_edited", b"block_forward_fp32", b"gelu_forward")
"""Names of functions by which hopscope's library is recognised."""


@cache
def kernels() -> ctypes.CDLL | None:
    """Load the library of all C code from the user's cache, or compile it now. Returns None, with a warning, if neither
    works; on Windows, always None."""
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
        # The file is missing, or is not hopscope's library.
        _compile([found, *options], [text for text in texts if text.suffix == ".c"], path)
        return _loaded(path)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:  # RuntimeError: no home folder
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    """Warn once why there are no kernels. A run that begins without kernels never uses them."""
    if parent_process() is not None:  # the parent process has warned
        return
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
    why = (said.decode(errors="replace").strip() or str(error)).splitlines()[-1]
    logging.getLogger("hopscope").warning(
        f"the C kernels cannot be compiled ({why}), so torch computes everything, which is slower, and runs that begin "
        "now never use kernels; set CC to a C compiler, and XDG_CACHE_HOME to a folder that can be written"
    )


def shared_out(name: str, count: int, *arguments: Any) -> None:
    """Call a kernel for `count` items, divided among as many threads as torch uses.

    With OpenMP, this is one call, which divides the items among torch's own threads. These keep their cores busy while
    they wait for work, so further threads would compete with them.

    Args:
        name: name of the kernel, which takes the first item, the item after the last, the number of threads, and
            `arguments`.
        count: number of items. If it is 0, nothing is called.
        arguments: further arguments, of types that ctypes supports.
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
    """Return a pool of threads, which have the arithmetic settings of the thread that starts them."""
    return ThreadPoolExecutor(count)


def _loaded(path: Path) -> ctypes.CDLL | None:
    """Load the library in a file; None if this fails or the file lacks hopscope's functions. A file without them is
    not even loaded, since the process would then keep using it after it is replaced."""
    data = path.read_bytes()
    if not all(name in data for name in _FUNCTIONS):
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def _compile(compiler: Sequence[str], sources: Sequence[Path], path: Path) -> None:
    """Compile the sources in parallel in a temporary folder and move the result to `path`, so that it is complete."""
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
        raise OSError("the compiled library cannot be loaded")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hopscope"


def processor() -> str:
    """Return the processor's features. Machines that share a home folder may differ in them, so file names do too."""
    return told_by_linux("flags") or told_by_linux("Features") or platform.processor()
