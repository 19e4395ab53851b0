"""The command line in a fork of this process: exit status, what it said, and whether it came to an end in time."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from killing import Writes

SECONDS = 10


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


def command(
    arguments: Sequence[str],
    inside: Path,
    *,
    kill_at: int | None = None,
    before: Callable[[], None] = lambda: None,
    seconds: float = SECONDS,
) -> Ended:
    """Run `hopscope ARGUMENTS` in a fork, in the folder `inside`; standard output goes nowhere.

    Args:
        arguments: of the command line.
        inside: the working folder.
        kill_at: the moment around a write at which the process is killed (`killing.Writes`); None for never.
        before: called in the fork first: limits, patches.
        seconds: after which it is killed.
    """
    counted, counts = os.pipe()
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
            import pytest

            from hopscope.cli import main
            from hopscope.signals import raise_on_stop_signals

            raise_on_stop_signals()
            before()
            with pytest.MonkeyPatch.context() as patch:
                writes = Writes(patch, kill_at)
                try:
                    main(list(arguments))
                except SystemExit as ended:
                    status = ended.code if isinstance(ended.code, int) else 0
                os.write(counts, str(writes.seen).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(counts)
    status = _wait(child, began + seconds)
    with os.fdopen(counted) as pipe:
        moments = pipe.read()
    said = errors.read_text(errors="replace") if errors.exists() else ""
    errors.unlink(missing_ok=True)
    return Ended(status, said, int(moments or 0))


def _wait(child: int, until: float) -> int | None:
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return 137 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else _code(status)
        time.sleep(0.005)
    for look in range(2 * SECONDS):
        if look in (0, SECONDS):  # the second order is promised to end what waits for the end of a step
            os.kill(child, signal.SIGTERM)
        time.sleep(0.5)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _code(status)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def contents(folder: Path) -> dict[str, bytes]:
    """What a folder holds but for pictures, locks and logs of others."""
    skipped = {".png", ".svg", ".pdf", ".lock", ".eval", ".html"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in skipped and not path.name.startswith(".errors")
    }
