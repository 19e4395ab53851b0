"""The command line in this process; or in a fork with everything small: its status, output, and whether it ended."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from killing import Writes

from hopscope.cli import main
from hopscope.processes import raise_on_stop_signals

SECONDS = 10


def call(*arguments: str) -> int:
    """The exit status of `hopscope ARGUMENTS` in this process."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


@dataclass(frozen=True)
class Ended:
    """How a command ended; status None where it had to be killed, 137 where it was meant to be."""

    status: int | None
    said: str
    moments: int = 0

    @property
    def fault(self) -> str:
        """What no command may do, whatever it is given; empty where it did none of it."""
        if self.status is None:
            return f"no end within {SECONDS} seconds, and SIGTERM was not heard"
        if "Traceback" in self.said:
            return "traceback: " + self.said.strip().splitlines()[-1][:200]
        if self.status not in (0, 1, 2, 130):
            return f"status {self.status}"
        if self.status == 2 and not self.said.strip():
            return "not a word"
        if len(self.said) > 20_000:
            return f"{len(self.said)} characters on standard error"
        return ""


def call_in_fork(
    arguments: Sequence[str], inside: Path, *, kill_at: int | None = None, seconds: float = SECONDS
) -> Ended:
    """Run `hopscope ARGUMENTS` in a fork, in the folder `inside`; standard output goes nowhere.

    Args:
        arguments: of the command line.
        inside: the working folder.
        kill_at: the moment around a write at which the process is killed (`killing.Writes`); None for never.
        seconds: after which it is killed.
    """
    reader, writer = os.pipe()
    errors = inside / f".errors-{os.getpid()}"
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()
            os.chdir(inside)
            out, error = os.open(os.devnull, os.O_RDWR), os.open(errors, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            for number, to in ((0, out), (1, out), (2, error)):
                os.dup2(to, number)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            raise_on_stop_signals()
            quick()
            with pytest.MonkeyPatch.context() as patch:
                writes = Writes(patch, kill_at)
                try:
                    main(list(arguments))
                except SystemExit as ended:
                    status = ended.code if isinstance(ended.code, int) else 0
                os.write(writer, str(writes.seen).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writer)
    status = _wait(child, began + seconds)
    with os.fdopen(reader) as pipe:
        moments = pipe.read()
    said = errors.read_text(errors="replace") if errors.exists() else ""
    errors.unlink(missing_ok=True)
    return Ended(status, said, int(moments or 0))


def _wait(child: int, until: float) -> int | None:
    """The exit status: 137 after SIGKILL, None where SIGTERM did not end it."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            return 137 if killed else os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    for attempt in range(2 * SECONDS):
        if attempt in (0, SECONDS):  # the second order is promised to end what waits for the end of a step
            os.kill(child, signal.SIGTERM)
        time.sleep(0.5)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def quick() -> None:
    """In a fork: everything small, states after every row, and no pictures but drawings that a page embeds; what is
    written stays the same in kind and order."""
    from matplotlib.figure import Figure

    import hopscope.training.trainer as trainer
    from hopscope.circuits.checks import CertificateConfig
    from hopscope.circuits.search import config

    savefig_of = Figure.savefig

    def savefig(self: Figure, path: Any, *given: Any, **options: Any) -> None:
        if options.get("format") == "svg":
            savefig_of(self, path, *given, **options)
        else:
            Path(path).write_bytes(b"picture")

    Figure.savefig = savefig  # type: ignore[method-assign]
    trainer.HELD_OUT = 64
    trainer._SECONDS_BETWEEN_STATES = 0.0
    few = config.SearchBudget(2, 1, 16, 32, 32, 2, 2, most_rows=64)
    config.BUDGETS.update(quick=few, thorough=few)
    short = CertificateConfig(sequences=32, deciding=32, few=16, draws=6)
    CertificateConfig.of = classmethod(lambda cls, proof: proof or short)  # type: ignore[method-assign,assignment]
