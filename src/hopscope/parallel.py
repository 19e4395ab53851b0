"""Jobs in several processes of this machine, which end with the process that started them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from hopscope import own_process
from hopscope.errors import MachineError
from hopscope.interrupts import deferred, end_on_every_order

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_END = 10.0
"""Seconds that workers have to save their state once they are told to stop."""

T = TypeVar("T")


def in_processes(
    function: Callable[..., T],
    jobs: Sequence[tuple[Any, ...]],
    workers: int,
    tick: Callable[[set[int]], None] | None = None,
) -> list[T]:
    """Run `function(*job)` for every job in `workers` fresh processes; returns the results in the order of the jobs.

    The first failure stops the others and is raised. An order to stop is passed on to the workers, which save their
    state and begin nothing new. If this process is killed, they end within a second, so that no orphan writes where a
    new call continues.

    Args:
        function: the function, which must be importable by name from a module, not from the script that runs; its
            arguments and result must be picklable.
        jobs: the arguments of each job.
        workers: number of processes.
        tick: called now and then, while waiting, with the numbers of the jobs that are done.
    """
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin) as pool:
        try:
            with _without_main(), deferred() as stop:  # else a worker that is just being started could be left over
                running = [pool.submit(_run, function, *job) for job in jobs]
            if stop():
                raise KeyboardInterrupt
            pending = set(running)
            while pending:
                done, pending = wait(pending, timeout=_SECONDS_BETWEEN_LOOKS)
                for future in done:
                    future.result()
                if tick is not None:
                    tick({number for number, future in enumerate(running) if future.done()})
        except BrokenProcessPool:
            raise MachineError("a process that worked for this one was killed, or ran out of memory") from None
        except BaseException:
            _end(list(pool._processes.values()))
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in running]


@contextmanager
def _without_main() -> Iterator[None]:
    """A context in which processes that are made do not import the script that runs.

    They need nothing of it, and it would run there once more, up to where it asks for processes itself.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


def _end(processes: Sequence[BaseProcess]) -> None:
    """Tell processes to stop, and kill those that do not."""
    until = time.monotonic() + _SECONDS_TO_END
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()


def _begin() -> None:
    """Set up a worker, which is a process of our own, and let it end when its parent is gone."""
    own_process.claim()
    own_process.settle()
    end_on_every_order()

    def look() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _run(function: Callable[..., T], *job: Any) -> T:
    """Run a job in a worker, which ends when it is told to stop; otherwise the pool would give it the next job."""
    try:
        return function(*job)
    except KeyboardInterrupt:
        os._exit(130)
