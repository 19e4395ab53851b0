"""How a study's work is done: in how many processes, where, how precisely, and with which display of progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hopscope.checks import check_count, check_flag, make_plain
from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.kernels import Precision
    from hopscope.training.many import Then
    from hopscope.training.progress import Progress
    from hopscope.training.setup import Setup

WatchRuns = Callable[["dict[str, Progress]"], None]


@dataclass(frozen=True)
class Work:
    """How work is done.

        >>> hs.Work(workers=1, precision="fp32").workers
        1

    Attributes:
        workers: the number of processes; None for one per core.
        device: the device to train on; None for a GPU if there is one.
        precision: the precision to train in; `auto` for bf16 where the processor has a unit for it.
        compiled: whether training is compiled; None to decide from the length of the runs.
        bars: shows the training of some setups while its context lasts; it gives a function to be told how far each is.
        waiting: shows how many of a number of jobs of some kind are done while its context lasts; the context gives a
            function to be told that number.
        idle: whether to do nothing, so that a study only reads what is there.
        arms: patterns, as for file names, of the arms of a study to train; empty for all.

    Raises:
        InputError: a number or a choice is of another kind.
    """

    workers: int | None = None
    device: str | None = None
    precision: Precision | Literal["auto"] = "auto"
    compiled: bool | None = None
    bars: Callable[[Sequence[Setup]], AbstractContextManager[WatchRuns]] | None = None
    waiting: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] | None = None
    idle: bool = False
    arms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_plain(self)
        if self.workers is not None:
            check_count("workers", self.workers)
        if self.compiled is not None:
            check_flag("compiled", self.compiled)
        check_flag("idle", self.idle)

    @classmethod
    def of(cls, work: Work | None, options: Mapping[str, Any], what: str) -> Work:
        """The work as given, or of options; `what` has them.

        Raises:
            InputError: it is no `Work`, an option is no field of it, or both are given.
        """
        known = [one.name for one in fields(cls)]
        if unknown := [name for name in options if name not in known]:
            raise InputError(f"{unknown[0]} is no option of {what}; there are {', '.join(known)}")
        if work is None:
            return cls(**options)
        if not isinstance(work, Work):
            raise InputError(f"work must be hs.Work, as hs.Work(workers=1), got {work!r}")
        if options:
            raise InputError(f"work is given, and so is {', '.join(options)}; put it into the hs.Work")
        return work

    def wants(self, arm: str) -> bool:
        """Whether the arm of that name is to be trained.

        >>> Work(arms=("K/*", "N/8")).wants("K/2"), Work().wants("N/8")
        (True, True)
        """
        return not self.arms or any(fnmatchcase(arm, pattern) for pattern in self.arms)

    def train(
        self, setups: Sequence[Setup], folder: Path, then: Mapping[str, Then] | None = None, *, in_order: bool = False
    ) -> None:
        """Train what is not finished, each setup into the folder of its name; `then` and `in_order` as in `train_all`.

        Raises:
            InputError: a folder is in use for something else.
        """
        from hopscope.training.execution import Execution
        from hopscope.training.many import train_all

        if not setups or self.idle:
            return
        execution = Execution(self.device, None, self.precision, self.compiled, workers=self.workers)
        with self.bars(setups) if self.bars else nullcontext() as watch:
            train_all(setups, folder, execution=execution, in_order=in_order, then=then, watch=watch)

    def each(self, what: str, function: Callable[..., None], jobs: Sequence[tuple[Any, ...]]) -> None:
        """Call a function of a module with each of the jobs, each on one thread.

        They run in separate processes or, with a single worker or job, in this one: another would have to load
        everything anew.
        """
        from hopscope.processes import in_processes
        from hopscope.training.execution import available_cores

        if self.idle or not jobs:
            return
        workers = min(self.workers or available_cores(), len(jobs))
        with self.waiting(what, len(jobs)) if self.waiting else nullcontext() as tell:
            if workers > 1:
                tick = None if tell is None else lambda done: tell(len(done))
                in_processes(_on_one_thread, [(function, *job) for job in jobs], workers, tick)
                return
            for number, job in enumerate(jobs, 1):
                _on_one_thread(function, *job)
                if tell is not None:
                    tell(number)


def _on_one_thread(function: Callable[..., None], *job: Any) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        function(*job)
    finally:
        torch.set_num_threads(before)
