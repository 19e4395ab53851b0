"""How a study trains and measures: in parallel, or not at all if the study is only judged."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatchcase
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Any

import torch

import hopscope as hs


@dataclass(frozen=True)
class Work:
    """The settings for training and parallel work.

    Attributes:
        workers: the number of processes; None for one per core.
        device: the device to train on; None for a GPU if there is one.
        precision: the precision to train in; `auto` for bf16 where the hardware has it.
        judge_only: whether to train and measure nothing, and only read what is finished.
        conditions: the names of the conditions to train, with wildcards as in file names; empty for all conditions.
    """

    workers: int | None = None
    device: str | None = None
    precision: Any = "auto"
    judge_only: bool = False
    conditions: tuple[str, ...] = ()

    def selects(self, condition: str) -> bool:
        """Whether the condition with this name should be trained.

        >>> Work(conditions=("K/*", "N/8")).selects("K/2"), Work().selects("N/8")
        (True, True)
        """
        return not self.conditions or any(fnmatchcase(condition, pattern) for pattern in self.conditions)

    def train(self, setups: Sequence[hs.Setup], folder: Path) -> None:
        """Train the setups that are not finished, in the given order, each in a subfolder with its name.

        Raises:
            InputError: a subfolder is used for something else.
        """
        if not setups or self.judge_only:
            return
        line = _Lines("runs")
        hs.train_all(
            setups,
            folder,
            execution=hs.Execution(self.device, precision=self.precision, workers=self.workers),
            progress=lambda progress: line.report(sum(run.ended for run in progress.values()), len(progress)),
        )

    def each(self, noun: str, function: Callable[..., None], jobs: Sequence[tuple[Any, ...]]) -> None:
        """Call a module-level function with each job's arguments; several workers are processes of one thread each."""
        if self.judge_only or not jobs:
            return
        workers, line = min(self.workers or cpu_count() or 1, len(jobs)), _Lines(noun)
        if workers == 1:
            for number, job in enumerate(jobs, 1):
                function(*job)
                line.report(number, len(jobs))
            return
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
            calls = [pool.submit(function, *job) for job in jobs]
            try:
                for number, call in enumerate(as_completed(calls), 1):
                    call.result()
                    line.report(number, len(jobs))
            except BaseException:
                pool.shutdown(cancel_futures=True)  # and wait for what runs
                raise


class _Lines:
    """Progress lines on standard error: at most one in thirty seconds, and a last line after longer work."""

    def __init__(self, noun: str) -> None:
        self._noun, self._said, self._began = noun, time.monotonic(), time.monotonic()

    def report(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._said >= 30 or (done == of and now - self._began >= 30):
            self._said = now
            print(f"{self._noun}: {done} of {of} after {now - self._began:.0f} s", file=sys.stderr, flush=True)
