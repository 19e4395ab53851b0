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
from hopscope.parallel import in_processes
from hopscope.training.engine import FASTEST, EngineChoice, available_cores, default_device, using_threads
from hopscope.training.memory import check_memory, least_memory, memory_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.together import Together, alone_with, clear, lay_apart, together
from hopscope.training.trainer import train
from hopscope.words import counted

Then = Callable[[Path], None]
"""What is done with the folder of a run that is finished. Other processes must be able to import it by name, from a
module and not from the script that runs."""

ROOM = 4
"""How many times the least memory that an ensemble takes there must be: more than that is kept on the way."""


def train_all(
    setups: Sequence[Setup],
    folder: Path,
    *,
    workers: int | None = None,
    choice: EngineChoice = FASTEST,
    in_order: bool = False,
    as_ensembles: bool | None = None,
    then: Mapping[str, Then] | None = None,
    watch: Callable[[dict[str, Progress]], None] | None = None,
) -> None:
    """Train every setup into `folder / setup.name`: those with which something is done then, and then the others.

    Of either the longest come first, or they keep their order. On a CPU small models gain little from a second thread
    and everything from a second process, so each of `workers` processes trains runs on its share of the cores. On a GPU
    one process trains one run after the other, and those that differ by their seeds alone together.

    Args:
        setups: what to train; finished ones are skipped.
        folder: where their run folders are.
        workers: processes; `None` for one a core, at most one a run, and for one on a GPU.
        choice: of engines; its threads are all that the processes may use together.
        in_order: keep the order of the setups: whatever cuts the work short, the first of them are there.
        as_ensembles: train runs together that differ by their seeds alone, see `hopscope.training.together`; `None` for
            where a GPU trains.
        then: what is done with a run, by the setup's name, as soon as it is trained, on the threads of the process that
            trained it. Left to the caller are runs that were finished before, those of an ensemble, and all on a GPU.
        watch: told now and then where every run stands.

    Raises:
        InputError: names that repeat, workers below 1, or a folder in use for something else.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    device = choice.device or default_device()
    left = unfinished(setups, folder, in_order=in_order)
    left.sort(key=lambda setup: setup.name not in (then or {}))
    after = then if then and device == "cpu" else {}
    cores = choice.threads or available_cores()
    workers = min(workers or (cores if device == "cpu" else 1), max(1, len(left)))
    share = max(1, cores // workers)
    each = replace(choice, device=device, threads=share)
    for setup in left:  # or the first would be trained before the last is refused
        check_memory(setup, each.engine(setup))
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
    choice: EngineChoice,
    workers: int,
    watch: Callable[[dict[str, Progress]], None] | None,
) -> None:
    """Train what can be trained as ensembles: one after the other where the same run is wanted under several names."""

    def fits(ensemble: Setup) -> bool:
        engine = choice.engine(ensemble)
        return ROOM * workers * least_memory(ensemble, engine) <= memory_of(engine)

    clear(folder)
    while found := together(unfinished(setups, folder, in_order=True), folder, fits):
        _train_these_together(found, folder, choice, workers, watch)
        clear(folder)


def _train_these_together(
    found: Sequence[Together],
    folder: Path,
    choice: EngineChoice,
    workers: int,
    watch: Callable[[dict[str, Progress]], None] | None,
) -> None:
    """Train ensembles, so many at a time, and lay each apart as soon as it is trained."""
    workers = min(workers, len(found))
    if workers < 2:
        for one in found:
            _train_and_lay_apart(one, folder, choice, watch and (lambda stands, of=one: watch(of.progress(stands))))
    else:

        def tick(done: set[int]) -> None:
            assert watch is not None
            under_way = [one for number, one in enumerate(found) if number not in done]
            stands = progress_of([one.setup for one in under_way], folder)
            watch({name: at for one in under_way for name, at in one.progress(stands[one.setup.name]).items()})

        in_processes(_train_and_lay_apart, [(one, folder, choice) for one in found], workers, watch and tick)


def _train_and_lay_apart(
    ensemble: Together, folder: Path, choice: EngineChoice, watch: Callable[[Progress], None] | None = None
) -> None:
    """Train an ensemble for those of its runs that nobody else has trained by then."""
    with alone_with(ensemble, folder) as left:
        if left is not None:
            train_one(left.setup, folder, choice, watch)
            lay_apart(left, folder)


def _tell_of_wide_runs(setups: Sequence[Setup], folder: Path, share: int) -> None:
    """Say which runs were begun on more threads than a worker's share: they go on so, and wait for cores all the time.

    A run keeps its threads, since it is to end in the same bits.
    """
    begun = [setup.name for setup in setups if (folder / setup.name / "run.json").exists()]
    wide = [name for name in begun if RunFolder(folder / name).engine.threads > share]
    if wide:
        logging.getLogger("hopscope").warning(
            f"{counted(len(wide), 'run')} in {folder} begun on more threads than each worker has here ({share}), such "
            f"as {wide[0]}: it goes on with them and waits for cores all the time, many times slower; finish what is "
            "begun with --workers 1 (in Python workers=1), or delete its folder to begin it anew"
        )


def unfinished(setups: Sequence[Setup], folder: Path, *, in_order: bool = False) -> list[Setup]:
    """The setups whose run is not at its end, the longest first or in their order.

    Raises:
        InputError: names that repeat.
    """
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return left if in_order else sorted(left, key=lambda setup: -setup.work)


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


def _train_and_then(
    setup: Setup,
    folder: Path,
    choice: EngineChoice,
    then: Then | None,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process, and do with it what is done then."""
    train_one(setup, folder, choice, watch)
    if then is not None:
        with using_threads(choice.engine(setup)):
            then(folder / setup.name)


def train_one(
    setup: Setup,
    folder: Path,
    choice: EngineChoice,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process, into the folder of its name."""
    train(setup, folder / setup.name, engine=choice, watch=watch)
