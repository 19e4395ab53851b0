"""A process that is killed at its k-th write, for every k: what is on disk at any moment must be enough to resume.

A write is a file's bytes reaching the disk, a file getting its name, or a line appended. The process dies right before
one, in the middle of an appended line, or right after.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hopscope


class Writes:
    """Counts the moments around this process's writes, and kills it at the k-th; `None` for never."""

    def __init__(self, patch: pytest.MonkeyPatch, kill_at: int | None) -> None:
        self.seen, self._kill_at = 0, kill_at
        for name in ("replace", "fsync", "unlink"):
            patch.setattr(os, name, self._around(getattr(os, name)))
        patch.setattr(Path, "open", self._halving(Path.open))

    def _moment(self) -> None:
        self.seen += 1
        if self.seen == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self._moment()
            done = plain(*arguments, **options)
            self._moment()
            return done

        return counted

    def _halving(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A file opened to append is written in two halves, with moments before, between and after."""

        def opened(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            file = plain(path, mode, *arguments, **options)
            return _Halving(file, self._moment) if "a" in mode else file

        return opened


class _Halving:
    def __init__(self, file: Any, moment: Callable[[], None]) -> None:
        self._file, self._moment = file, moment

    def __enter__(self) -> _Halving:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def write(self, text: Any) -> None:
        for part in (text[: len(text) // 2], text[len(text) // 2 :]):
            self._moment()
            self._file.write(part)
            self._file.flush()
        self._moment()


def killed_at(kill_at: int | None, program: Callable[[], None]) -> int:
    """Kill `program` at that moment, in a fork of a process without threads; the number of moments if it ends, or 0."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            writes = Writes(patch, kill_at)
            program()
        os.write(writer, str(writes.seen).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        seen = pipe.read()
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return 0
    assert os.waitstatus_to_exitcode(status) == 0, "the program failed"
    return int(seen)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but pictures, pages, locks and logs, by its path in it."""
    skipped = {".png", ".svg", ".pdf", ".lock", ".eval", ".html"}
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in skipped]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not path.name.startswith(".errors")}


def killed_everywhere(
    program: Callable[[Path], None], fresh: Callable[[str], Path], every: int = 1
) -> tuple[int, dict[str, bytes]]:
    """Kill `program` at every so many-th moment, each time in a fresh folder; called again, its files must be the same.

    Returns the number of moments and the files of an undisturbed program.
    """
    alone = fresh("alone")
    moments = killed_at(None, lambda: program(alone))
    expected = contents(alone)
    for first in range(1, moments + 1, every):
        folder = fresh(str(first))
        in_folder = partial(program, folder)
        assert killed_at(first, in_folder) == 0
        killed_at(1 + (7 * first + 1) % moments, in_folder)  # and once more, somewhere else
        killed_at(None, in_folder)
        assert contents(folder) == expected, f"killed at moment {first} of {moments}"
    return moments, expected


def import_all() -> None:
    """Import what commands import when they need it, since each fork would do so again; and compute with one thread."""
    import torch

    late = "filelock jinja2 matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.pyplot"
    late += " rich.progress safetensors.torch scipy.stats"
    ours = [module.name for module in pkgutil.walk_packages(hopscope.__path__, "hopscope.")]
    for name in (*late.split(), *ours):
        if not name.endswith("__main__") and not name.startswith(("hopscope.benchmark.", "hopscope.language.")):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(name)
    torch.set_num_threads(1)
