"""Jobs in several processes of this machine that end with the process that asked for them."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any, TypeVar

from hopscope import own_process

_SECONDS_BETWEEN_LOOKS = 0.5

Result = TypeVar("Result")


def in_processes(
    function: Callable[..., Result],
    jobs: Sequence[tuple[Any, ...]],
    workers: int,
    tick: Callable[[], None] | None = None,
) -> list[Result]:
    """`function(*job)` for every job, in `workers` fresh processes; the results in the order of the jobs.

    The first failure stops the others and is raised. Should this process be killed, its workers end within a second, so
    that no orphan writes where a new call continues.

    Args:
        function: importable by name, like its arguments and result picklable between processes of one program.
        jobs: their arguments.
        workers: how many at a time.
        tick: called now and then while waiting.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(),)) as pool:
        running = [pool.submit(function, *job) for job in jobs]
        try:
            pending = set(running)
            while pending:
                done, pending = wait(pending, timeout=_SECONDS_BETWEEN_LOOKS)
                for future in done:
                    future.result()
                if tick is not None:
                    tick()
        except BaseException:
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in running]


def _begin(parent: int) -> None:
    """Settle a worker, which is a process of our own, and let it end when its parent is gone."""
    own_process.claim()
    own_process.settle()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
