"""Processes of our own: their settings, and jobs in several of them, which end with the process that started them.

A user's `import hopscope` changes no setting: a notebook's memory and arithmetic are left alone. Only a run itself has
our arithmetic there too, or it would not end in the bits of the command line.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hopscope.errors import MachineError
from hopscope.signals import deferred, exit_on_stop_signals

SECONDS_TO_SAVE = 10.0
"""Seconds that workers have to save their state once they are told to stop."""

_claimed = False

T = TypeVar("T")


def claim_process() -> None:
    """Declare that this process runs nothing but hopscope, and collect reference cycles rarely: it leaves few of them.

    Looking for them every few hundred objects, as Python does, took an eighth of the time of a search.
    """
    global _claimed
    _claimed = True
    gc.set_threshold(50_000, 10, 10)


def tune_process() -> None:
    """Tune a claimed process for arithmetic; any other is left as it is.

    It keeps the memory that it frees: given back to the system, it would return page by page and zeroed, which took a
    fifth of a step's time. And it rounds denormal numbers, below 1e-38, to zero: arithmetic on them is many times as
    slow.
    """
    if not _claimed:
        return
    import torch

    if sys.platform == "linux" and hasattr(c_library := ctypes.CDLL(None), "mallopt"):
        mmap_threshold, trim_threshold = -3, -1  # glibc's names of the parameters
        c_library.mallopt(mmap_threshold, 32 << 20)
        c_library.mallopt(trim_threshold, 2**31 - 1)
    torch.set_flush_denormal(True)


def flushes_denormals() -> bool:
    """Whether this thread rounds denormal numbers to zero: torch, which is told to, does not say."""
    return sys.float_info.min / 2 == 0


def flushing_denormals(work: Callable[[], T]) -> T:
    """What `work` gives where denormal numbers are zero, as in a tuned process; the caller's arithmetic stays.

    The work is done in a thread of its own, since torch's threads keep the arithmetic of the thread that began them.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    import torch

    if flushes_denormals():
        return work()
    with ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,)) as thread:
        done = thread.submit(work)
        while not wait([done], timeout=0.5).done:  # without an end to it, Windows would hear no signal to stop
            pass
        return done.result()


def in_processes(
    function: Callable[..., T],
    jobs: Sequence[tuple[Any, ...]],
    workers: int,
    tick: Callable[[set[int]], None] | None = None,
) -> list[T]:
    """Run `function(*job)` for every job in `workers` fresh processes; returns the results in the order of the jobs.

    The function must be importable by name from a module, not from the script that runs; its arguments and result must
    be picklable. `tick` is called now and then, while waiting, with the numbers of the jobs that are done. The first
    failure stops the others and is raised. A signal to stop is passed on to the workers, which save their state and
    begin nothing new. If this process is killed, they end within a second, so that no orphan writes where a new call
    continues.
    """
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_worker) as pool:
        try:
            with _without_main(), deferred() as stop:  # else a worker that is just being started could be left over
                running = [pool.submit(_run_job, function, *job) for job in jobs]
            if stop():
                raise KeyboardInterrupt
            pending = set(running)
            while pending:
                done, pending = wait(pending, timeout=0.5)
                for future in done:
                    future.result()
                if tick is not None:
                    tick({number for number, future in enumerate(running) if future.done()})
        except BrokenProcessPool:
            raise MachineError("a process that worked for this one was killed, or ran out of memory") from None
        except BaseException:
            until = time.monotonic() + SECONDS_TO_SAVE
            processes = list(pool._processes.values())
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in running]


@contextmanager
def _without_main() -> Iterator[None]:
    """A context in which new processes do not import the script that runs, which would run there once more."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


def _begin_worker() -> None:
    """Set up a worker, which is a process of our own, and let it end when its parent is gone."""
    claim_process()
    tune_process()
    exit_on_stop_signals()
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)


def _run_job(function: Callable[..., T], *job: Any) -> T:
    """Run a job in a worker, which ends when it is told to stop; otherwise the pool would give it the next job."""
    try:
        return function(*job)
    except KeyboardInterrupt:
        os._exit(130)
