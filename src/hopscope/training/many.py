"""Many runs, trained by several processes of this machine.

The run folders are the ledger: a run that is finished is not touched, one that was cut short continues, and nothing
else has to be remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hopscope.errors import InputError
from hopscope.processes import in_processes
from hopscope.training.execution import (
    FASTEST,
    Execution,
    available_cores,
    default_device,
    threads_by_default,
    using_threads,
)
from hopscope.training.memory import check_memory, least_memory, memory_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.together import Together, alone_with, clear, lay_apart, together
from hopscope.training.trainer import train
from hopscope.words import counted

Then = Callable[[Path], None]
"""A function that is called with the folder of a finished run. Other processes must be able to import it by name, from
a module and not from the script that runs."""

ROOM = 4
"""The memory there must be, in multiples of the least that an ensemble takes: training also needs temporary memory."""


def train_all(
    setups: Sequence[Setup],
    folder: Path,
    *,
    execution: Execution = FASTEST,
    in_order: bool = False,
    as_ensembles: bool | None = None,
    then: Mapping[str, Then] | None = None,
    watch: Callable[[dict[str, Progress]], None] | None = None,
) -> None:
    """Train every setup into `folder / setup.name`: first the setups named in `then`, then the others.

    Within each group the longest run comes first, unless `in_order` is set. On a CPU small models gain little from a
    second thread but much from a second process, so each of `workers` processes trains runs on its share of the cores.
    On a GPU one process trains one run after the other, and runs that differ only by their seeds together.

    Args:
        setups: what to train; finished runs are skipped.
        folder: the folder that holds their run folders.
        execution: how steps are computed; its threads are shared among its workers, at most one per run.
        in_order: keep the order of the setups, so that the first ones are there if the work is cut short.
        as_ensembles: train runs that differ only by their seeds together, see `hopscope.training.together`; `None` does
            so on a GPU.
        then: functions by the setup's name, each called with the run's folder as soon as the run is trained, on the
            threads of the process that trained it. Runs that were finished before, runs trained in an ensemble and all
            runs on a GPU are left to the caller.
        watch: called now and then with the progress of every run.

    Raises:
        InputError: names repeat, a run does not fit into memory, or a
            folder is in use for something else.
    """
    device = execution.device or default_device()
    left = unfinished(setups, folder, in_order=in_order)
    check_begun(setups, folder)
    left.sort(key=lambda setup: setup.name not in (then or {}))
    after = then if then and device == "cpu" else {}
    cores = execution.threads or available_cores()
    workers = min(execution.workers or (cores if device == "cpu" else 1), max(1, len(left)))
    share = max(1, cores // workers)
    if execution.threads is None:
        share = min(share, threads_by_default())
    each = replace(execution, device=device, threads=share)
    for setup in left:  # before training any, so that none is refused after others were trained
        check_memory(setup, each.resolve(setup))
    if device != "cpu" if as_ensembles is None else as_ensembles:
        tell = watch and (lambda ones: watch(progress_of(setups, folder) | ones))
        _train_together(left, folder, each, workers, tell)
        left = unfinished(left, folder, in_order=True)
    if workers > 1:
        _tell_of_wide_runs(left, folder, share)
    if not left:
        pass
    elif workers == 1:
        for setup in left:
            last = after.get(setup.name)
            _train_and_then(setup, folder, each, last, watch and (lambda progress: watch(progress_of(setups, folder))))
    else:
        jobs = [(setup, folder, each, after.get(setup.name)) for setup in left]

        def tick(done: set[int]) -> None:
            assert watch is not None
            left_to_do = {setup.name for number, setup in enumerate(left) if setup.name in after and number not in done}
            stands = progress_of(setups, folder)
            watch({name: replace(one, then=one.ended and name in left_to_do) for name, one in stands.items()})

        in_processes(_train_and_then, jobs, workers, watch and tick)
    if watch is not None:
        watch(progress_of(setups, folder))


def _train_together(
    setups: Sequence[Setup],
    folder: Path,
    execution: Execution,
    workers: int,
    watch: Callable[[dict[str, Progress]], None] | None,
) -> None:
    """Train what can be trained as ensembles, in several rounds where the same run is wanted under several names."""

    def fits(ensemble: Setup) -> bool:
        here = execution.resolve(ensemble)
        return ROOM * workers * least_memory(ensemble, here) <= memory_of(here)

    clear(folder)
    while found := together(unfinished(setups, folder, in_order=True), folder, fits):
        _train_these_together(found, folder, execution, workers, watch)
        clear(folder)


def _train_these_together(
    found: Sequence[Together],
    folder: Path,
    execution: Execution,
    workers: int,
    watch: Callable[[dict[str, Progress]], None] | None,
) -> None:
    """Train ensembles, `workers` at a time, and lay each apart as soon as it is trained."""
    workers = min(workers, len(found))
    if workers < 2:
        for one in found:
            _train_and_lay_apart(one, folder, execution, watch and (lambda stands, of=one: watch(of.progress(stands))))
    else:

        def tick(done: set[int]) -> None:
            assert watch is not None
            under_way = [one for number, one in enumerate(found) if number not in done]
            stands = progress_of([one.setup for one in under_way], folder)
            watch({name: at for one in under_way for name, at in one.progress(stands[one.setup.name]).items()})

        in_processes(_train_and_lay_apart, [(one, folder, execution) for one in found], workers, watch and tick)


def _train_and_lay_apart(
    ensemble: Together, folder: Path, execution: Execution, watch: Callable[[Progress], None] | None = None
) -> None:
    """Train an ensemble for those of its runs that no other process has trained by then, and lay it apart."""
    with alone_with(ensemble, folder) as left:
        if left is not None:
            train_one(left.setup, folder, execution, watch)
            lay_apart(left, folder)


def _tell_of_wide_runs(setups: Sequence[Setup], folder: Path, share: int) -> None:
    """Warn of runs begun on more threads than a worker's share, which will wait for cores all the time.

    A run keeps its number of threads so that it ends in the same bits.
    """
    begun = [setup.name for setup in setups if (folder / setup.name / "run.json").exists()]
    wide = [name for name in begun if (RunFolder(folder / name).execution.threads or 1) > share]
    if wide:
        logging.getLogger("hopscope").warning(
            f"{counted(len(wide), 'run')} in {folder} begun on more threads than each worker has here ({share}), such "
            f"as {wide[0]}: it goes on with them and waits for cores all the time, many times slower; finish what is "
            "begun with --workers 1 (in Python workers=1), or delete its folder to begin it anew"
        )


def unfinished(setups: Sequence[Setup], folder: Path, *, in_order: bool = False) -> list[Setup]:
    """The setups whose run is not finished, the longest first or, if `in_order`, in the order given.

    Raises:
        InputError: names repeat.
    """
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return left if in_order else sorted(left, key=lambda setup: -setup.work)


def check_begun(setups: Iterable[Setup], folder: Path) -> None:
    """Check that what is there under the setups' names is their runs, and that the others can begin, before any is
    trained or told of.

    Raises:
        InputError: a run folder of that name holds another run, or a guess comes to what a run waits for.
    """
    for setup in setups:
        if (folder / setup.name / "run.json").exists():
            RunFolder(folder / setup.name).require(setup)
        else:
            setup.check_waiting()


def finished(setups: Iterable[Setup], folder: Path) -> dict[str, RunFolder]:
    """The finished runs, by name.

    Raises:
        InputError: a setup's run folder holds another run.
    """
    runs = {}
    for setup in setups:
        if (folder / setup.name / "result.json").exists():
            run = RunFolder(folder / setup.name)
            runs[setup.name] = run.require(setup)
    return runs


def _train_and_then(
    setup: Setup,
    folder: Path,
    execution: Execution,
    then: Then | None,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process, and call `then` with its folder."""
    train_one(setup, folder, execution, watch)
    if then is not None:
        with using_threads(execution.threads or 1):
            then(folder / setup.name)


def train_one(
    setup: Setup,
    folder: Path,
    execution: Execution,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process, into `folder / setup.name`."""
    train(setup, folder / setup.name, execution=execution, watch=watch)
