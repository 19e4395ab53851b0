"""Processes that run only hopscope: their settings, the signals that stop them, and jobs in several processes.

`import hopscope` does not change the memory or floating-point settings of a user's process, such as a notebook. There,
only the training of a run uses hopscope's floating-point settings, so that it gives the same bits as the command line.
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
"""Seconds that workers have to save their state after a signal to stop."""

_claimed = False

T = TypeVar("T")


def claim_process() -> None:
    """Declare that this process runs only hopscope, and collect garbage rarely, since reference cycles are few."""
    global _claimed
    _claimed = True
    gc.set_threshold(50_000, 10, 10)


def tune_process() -> None:
    """Tune the memory and arithmetic of a claimed process; any other process is left unchanged.

    The process keeps the memory that it frees, since getting that back from the system takes a fifth of a step's time.
    It rounds denormal numbers, below 1e-38, to zero, since arithmetic on such numbers is many times slower.
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
    """Whether this thread rounds denormal numbers to zero, which torch has no function to tell."""
    return sys.float_info.min / 2 == 0


def flushing_denormals(work: Callable[[], T]) -> T:
    """Return the result of `work` with denormal numbers rounded to zero, as in a tuned process.

    A new thread runs `work`, since torch's threads keep the settings of the thread that started them. The settings of
    the caller's thread do not change.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    import torch

    if flushes_denormals():
        return work()
    with ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,)) as thread:
        done = thread.submit(work)
        while not wait([done], timeout=0.5).done:  # an endless wait would block signals on Windows
            pass
        return done.result()


_STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_raised: list[int] = []
"""The signals that raised an exception. They are kept since torch can swallow the exception while it is imported, and
in a list since a second signal could wait forever at the lock of a `threading.Event`."""


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """A context in which the first stop signal is only recorded; it yields a function that returns whether one came.

    The second signal acts as it would outside the context. In a worker, it is recorded too, since the parent can pass
    on a signal that the worker already got. Signals without a handler and other threads are not affected.
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
    """Run `function(*job)` for every job in `workers` new processes, and return the results in the order of the jobs.

    The function must be importable by name from a module, and its arguments and result must be picklable. `tick` is
    called regularly with the numbers of the finished jobs. The first failure stops the other jobs and is raised. A
    signal to stop is passed on to the workers, which save their state. If this process is killed, the workers end
    within a second, so that they do not write to files that a new call continues.
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
            raise MachineError("a worker process was killed, or ran out of memory") from None
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
    """A context in which new processes do not import the running script, since that would run the script again."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


def _begin_worker() -> None:
    """Set up a worker process, and let it end when its parent has ended."""
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
    """Run a job; a signal to stop ends the worker process, since the pool would otherwise give it another job."""
    try:
        return function(*job)
    except KeyboardInterrupt:
        os._exit(130)
