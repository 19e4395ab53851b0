"""Processes of our own: their settings, signals to stop them, and jobs in several of them.

A user's `import hopscope` changes no setting: a notebook's memory and arithmetic are left alone. Only a run itself has
our arithmetic there too, or it would not end in the bits of the command line.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hopscope.errors import MachineError

SECONDS_TO_SAVE = 10.0
"""Seconds that workers have to save their state once they must stop."""

_claimed = False

T = TypeVar("T")


def claim_process() -> None:
    """Declare that this process runs nothing but hopscope, and collect reference cycles, which are few, rarely."""
    global _claimed
    _claimed = True
    gc.set_threshold(50_000, 10, 10)


def tune_process() -> None:
    """Tune a claimed process for arithmetic; any other is left as it is.

    It keeps the memory that it frees, which would come back page by page and zeroed (a fifth of a step's time), and
    rounds denormal numbers, below 1e-38, to zero, since arithmetic on them is many times as slow.
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
    """Whether this thread rounds denormal numbers to zero: torch does not say."""
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


_STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_raised: list[int] = []
"""The signals for which `raise_on_stop_signals` raised; torch, while it is imported, may swallow the exception. A list:
a `threading.Event` has a lock at which a second signal would wait for ever."""


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """A context in which the first signal to stop is only noted; gives a function that says whether there was one.

    The second signal acts as it would outside the context, except in a worker, which can get the same signal twice
    (from its parent too). Signals that the process does not handle are left alone, and so are other threads.
    """
    noted = list(_raised)

    def was_asked() -> bool:
        return bool(noted)

    if threading.current_thread() is not threading.main_thread():
        yield was_asked
        return
    before = {number: handler for number in _STOPPING if callable(handler := signal.getsignal(number))}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if before[number] is not _exit:
            restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield was_asked
    finally:
        restore()


def raise_on_stop_signals() -> None:
    """Let every signal to stop, such as Ctrl-C or a batch system's SIGTERM, raise `KeyboardInterrupt`."""
    _handle(_raise)


def _raise(number: int, frame: Any) -> None:
    _raised.append(number)
    raise KeyboardInterrupt


def _exit(number: int, frame: Any) -> None:
    os._exit(130)


def _handle(handler: Callable[[int, Any], None]) -> None:
    for number in _STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def in_processes(
    function: Callable[..., T],
    jobs: Sequence[tuple[Any, ...]],
    workers: int,
    tick: Callable[[set[int]], None] | None = None,
) -> list[T]:
    """Run `function(*job)` for every job in `workers` fresh processes; returns the results in the order of the jobs.

    The function must be importable by name from a module, its arguments and result picklable. `tick` is called now and
    then with the numbers of the jobs that are done. The first failure stops the others and is raised. A signal to stop
    is passed on to the workers, which save their state. If this process is killed, they end within a second, so that no
    orphan writes where a new call continues.
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
    _handle(_exit)
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)


def _run_job(function: Callable[..., T], *job: Any) -> T:
    """Run a job in a worker, which ends on a signal to stop; otherwise the pool would give it the next job."""
    try:
        return function(*job)
    except KeyboardInterrupt:
        os._exit(130)
