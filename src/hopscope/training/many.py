"""Many runs, trained by several processes of this machine.

The run folders are the ledger: a run that is finished is not touched, one that was cut short continues, and nothing
else has to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from hopscope.errors import InputError
from hopscope.parallel import in_processes
from hopscope.training.engine import available_cores, choose_engine, default_device
from hopscope.training.memory import check_memory
from hopscope.training.precision import Precision
from hopscope.training.progress import Progress, progress_of
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.trainer import train


def train_all(
    setups: Sequence[Setup],
    folder: Path,
    *,
    workers: int | None = None,
    device: str | None = None,
    precision: Precision | Literal["auto"] = "auto",
    compiled: bool | None = None,
    watch: Callable[[dict[str, Progress]], None] | None = None,
) -> None:
    """Train every setup into `folder / setup.name`, the longest first.

    On a CPU small models gain little from a second thread and everything from a second process, so each of `workers`
    processes trains runs on its share of the cores. On a GPU one process trains one run after the other.

    Args:
        setups: what to train; finished ones are skipped.
        folder: where their run folders are.
        workers: processes; `None` for one a core, at most one a run.
        device: as in `choose_engine`.
        precision: as in `choose_engine`.
        compiled: as in `choose_engine`.
        watch: told now and then where every run stands.

    Raises:
        InputError: names that repeat, workers below 1, or a folder in use for something else.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    device = device or default_device()
    left = unfinished(setups, folder)
    cores = available_cores()
    workers = min(workers or (cores if device == "cpu" else 1), max(1, len(left)))
    options = (device, max(1, cores // workers), precision, compiled)
    for setup in left:  # or the first would be trained before the last is refused
        check_memory(setup, choose_engine(setup, device=device, threads=options[1], precision=precision))
    if not left:
        pass
    elif workers == 1:
        for setup in left:
            train_one(setup, folder, *options, watch and (lambda progress: watch(progress_of(setups, folder))))
    else:
        jobs = [(setup, folder, *options) for setup in left]
        tick = None if watch is None else lambda: watch(progress_of(setups, folder))
        in_processes(train_one, jobs, workers, tick)
    if watch is not None:
        watch(progress_of(setups, folder))


def unfinished(setups: Sequence[Setup], folder: Path) -> list[Setup]:
    """The setups whose run is not at its end, the longest first.

    Raises:
        InputError: names that repeat.
    """
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return sorted(left, key=lambda setup: -setup.work)


def finished(setups: Iterable[Setup], folder: Path) -> dict[str, RunFolder]:
    """The runs that are at their end, by name.

    Raises:
        InputError: a run folder of that name holds another run.
    """
    runs = {}
    for setup in setups:
        if (folder / setup.name / "result.json").exists():
            run = RunFolder(folder / setup.name)
            runs[setup.name] = run.require(setup)
    return runs


def train_one(
    setup: Setup,
    folder: Path,
    device: str,
    threads: int,
    precision: Precision | Literal["auto"],
    compiled: bool | None,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process; the arguments as in `choose_engine` and `train`."""
    engine = choose_engine(setup, device=device, threads=threads, precision=precision, compiled=compiled)
    train(setup, folder / setup.name, engine=engine, watch=watch)
