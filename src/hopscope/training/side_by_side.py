"""Many runs side by side on this machine: in several processes, or on a GPU as ensembles of seeds.

The run folders are the ledger: a run that is finished is not touched, one that was cut short continues, and nothing
else has to be remembered.

A small model leaves most of a GPU idle, so runs that differ only by their seeds are trained there as one ensemble, each
model by its own schedule, and then split into one run folder per seed, up to rounding those of models trained alone. An
ensemble trains in a hidden folder beside the runs, where it resumes after a kill like any run; a run folder split from
it appears complete.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hopscope.checks import finite_or_none
from hopscope.errors import InputError
from hopscope.files import lock as locked
from hopscope.processes import in_processes
from hopscope.tensor_files import load_tensors
from hopscope.training.execution import (
    FASTEST,
    Execution,
    available_cores,
    check_memory,
    default_device,
    least_memory,
    memory_of,
    threads_by_default,
    using_threads,
)
from hopscope.training.metrics import MetricsRow
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.run_records import Result, hash_of
from hopscope.training.schedule import Schedule
from hopscope.training.trainer import train
from hopscope.words import counted

Then = Callable[[Path], None]
"""A function that is called with the folder of a finished run. Other processes must be able to import it by name, from
a module and not from the script that runs."""

WatchRuns = Callable[[dict[str, Progress]], None]


@dataclass(frozen=True)
class ProgressDisplay:
    """How the progress of work is shown: each makes a context that gives a function to be told how far the work is.

    Attributes:
        runs: shows the training of some setups.
        jobs: shows how many of a number of jobs of some kind are done.
    """

    runs: Callable[[Sequence[Setup]], AbstractContextManager[WatchRuns | None]] = lambda setups: nullcontext()
    jobs: Callable[[str, int], AbstractContextManager[Callable[[int], None] | None]] = lambda what, number: (
        nullcontext()
    )


SILENT = ProgressDisplay()
"""Nothing is shown."""

ENSEMBLES = ".ensembles"
"""The folder, beside the runs, in which ensembles train."""

MOST_MODELS = 64
"""The most models in one ensemble."""

MEMORY_MARGIN = 4
"""The memory there must be, in multiples of the least that an ensemble takes: training also needs temporary memory."""

_SPLIT = "split"
"""The folder in an ensemble's folder that holds the run folders until they are complete."""


def train_all(
    setups: Sequence[Setup],
    folder: Path,
    *,
    execution: Execution = FASTEST,
    in_order: bool = False,
    as_ensembles: bool | None = None,
    then: Mapping[str, Then] | None = None,
    watch: WatchRuns | None = None,
) -> None:
    """Train every setup into `folder / setup.name`: first the setups named in `then`, then the others.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> problem = hs.RetrievalProblem(hops=1)
        >>> setups = [hs.Setup(f"seed-{seed}", problem, few, (seed,)) for seed in (0, 1)]
        >>> hs.train_all(setups, folder / "runs", execution=hs.Execution("cpu", workers=1))
        >>> (folder / "runs" / "seed-1" / "result.json").exists()
        True

    Within each group the longest run comes first, unless `in_order` is set. On a CPU small models gain little from a
    second thread but much from a second process, so each worker trains runs on its share of the cores. On a GPU one
    process trains one run after the other, and runs that differ only by their seeds together.

    Args:
        setups: what to train; finished runs are skipped.
        folder: the folder that holds their run folders.
        execution: how steps are computed; its threads are shared among its workers, at most one per run.
        in_order: keep the order of the setups, so that the first ones are there if the work is cut short.
        as_ensembles: train runs that differ only by their seeds together; `None` does so on a GPU.
        then: functions by the setup's name, each called with the run's folder as soon as the run is trained, on the
            threads of the process that trained it. Runs that were finished before, runs trained in an ensemble and all
            runs on a GPU are left to the caller.
        watch: called now and then with the progress of every run.

    Raises:
        InputError: names repeat, a run does not fit into memory, or a folder is in use for something else.
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
        update = watch and (lambda runs: watch(progress_of(setups, folder) | runs))
        _train_ensembles(left, folder, each, workers, update)
        _remove_split(setups, folder)
        left = unfinished(left, folder, in_order=True)
    if workers > 1:
        _warn_of_wide_runs(left, folder, share)

    def show() -> None:
        if watch is not None:
            watch(progress_of(setups, folder))

    if left and workers == 1:
        for setup in left:
            _train_and_then(setup, folder, each, after.get(setup.name), watch and (lambda _: show()))
    elif left:
        jobs = [(setup, folder, each, after.get(setup.name)) for setup in left]

        def tick(done: set[int]) -> None:
            assert watch is not None
            waiting = {setup.name for number, setup in enumerate(left) if setup.name in after and number not in done}
            runs = progress_of(setups, folder)
            watch({name: replace(one, then=one.ended and name in waiting) for name, one in runs.items()})

        in_processes(_train_and_then, jobs, workers, watch and tick)
    show()


def run_jobs(
    what: str,
    function: Callable[..., None],
    jobs: Sequence[tuple[Any, ...]],
    execution: Execution,
    display: ProgressDisplay,
) -> None:
    """Call a function of a module with each of the jobs, each on one thread.

    They run in separate processes or, with a single worker or job, in this one: another would have to load everything
    once more.
    """
    workers = min(execution.workers or available_cores(), len(jobs))
    with display.jobs(what, len(jobs)) if jobs else nullcontext() as show:
        if workers > 1:
            tick = None if show is None else lambda done: show(len(done))
            in_processes(_on_one_thread, [(function, *job) for job in jobs], workers, tick)
            return
        for number, job in enumerate(jobs, 1):
            _on_one_thread(function, *job)
            if show is not None:
                show(number)


def _on_one_thread(function: Callable[..., None], *job: Any) -> None:
    with using_threads(1):
        function(*job)


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
    """Check, before any is trained, that run folders with the setups' names are theirs and that the others can begin.

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
    there = [setup for setup in setups if (folder / setup.name / "result.json").exists()]
    return {setup.name: RunFolder(folder / setup.name).require(setup) for setup in there}


def _train_and_then(
    setup: Setup,
    folder: Path,
    execution: Execution,
    then: Then | None,
    watch: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run in this process, and call `then` with its folder."""
    train(setup, folder / setup.name, execution=execution, watch=watch)
    if then is not None:
        with using_threads(execution.threads or 1):
            then(folder / setup.name)


def _warn_of_wide_runs(setups: Sequence[Setup], folder: Path, share: int) -> None:
    """Warn of runs begun on more threads than a worker's share, which they keep so that they end in the same bits."""
    begun = [setup.name for setup in setups if (folder / setup.name / "run.json").exists()]
    wide = [name for name in begun if (RunFolder(folder / name).execution.threads or 1) > share]
    if wide:
        logging.getLogger("hopscope").warning(
            f"{counted(len(wide), 'run')} in {folder} begun on more threads than each worker has here ({share}), such "
            f"as {wide[0]}: it goes on with them and waits for cores all the time, many times slower; finish what is "
            "begun with --workers 1 (in Python workers=1), or delete its folder to begin it again"
        )


@dataclass(frozen=True)
class SeedGroup:
    """An ensemble, and the runs whose models it trains.

    Attributes:
        setup: the setup of the ensemble; its name is that of the ensemble's folder.
        runs: the setups of the runs, one for each of the ensemble's seeds or for some of them.
    """

    setup: Setup
    runs: tuple[Setup, ...]

    def progress(self, ensemble: Progress) -> dict[str, Progress]:
        """The progress of each run, by name, from that of the ensemble."""
        by_seed = dict(zip(self.setup.seeds, ensemble.partial_losses, strict=False))
        return {
            run.name: replace(ensemble, partial_losses=(by_seed[run.seeds[0]],) if by_seed else ()) for run in self.runs
        }


def _train_ensembles(
    setups: Sequence[Setup], folder: Path, execution: Execution, workers: int, watch: WatchRuns | None
) -> None:
    """Train what can be trained as ensembles, in several rounds where the same run is wanted under several names."""

    def fits(ensemble: Setup) -> bool:
        here = execution.resolve(ensemble)
        return MEMORY_MARGIN * workers * least_memory(ensemble, here) <= memory_of(here)

    while groups := seed_groups(unfinished(setups, folder, in_order=True), folder, fits):

        def tick(done: set[int], groups: Sequence[SeedGroup] = groups) -> None:
            assert watch is not None
            under_way = [group for number, group in enumerate(groups) if number not in done]
            found = progress_of([group.setup for group in under_way], folder)
            watch({name: at for group in under_way for name, at in group.progress(found[group.setup.name]).items()})

        if min(workers, len(groups)) > 1:
            in_processes(_train_group, [(group, folder, execution) for group in groups], workers, watch and tick)
            continue
        for number, group in enumerate(groups):
            before = set(range(number))
            _train_group(group, folder, execution, watch and (lambda _, before=before: tick(before)))


def seed_groups(setups: Sequence[Setup], folder: Path, fits: Callable[[Setup], bool]) -> list[SeedGroup]:
    """Ensembles of the setups that have one seed, differ by nothing else and have no folder yet; ensembles that were
    begun come first. Where the same run is wanted under several names, the others wait until the first has its folder.

    Args:
        setups: setups of runs, none of them finished.
        folder: the folder that holds their run folders.
        fits: says whether an ensemble fits into memory.
    """
    alike: dict[tuple[object, object], list[Setup]] = {}
    for setup in setups:
        if len(setup.seeds) == 1 and not (folder / setup.name).exists():
            alike.setdefault((setup.problem, setup.recipe), []).append(setup)
    found: dict[str, SeedGroup] = {}
    for run in _ensembles(folder):
        same = alike.get((run.problem, run.recipe), [])
        runs = _by_seed(setup for setup in same if setup.seeds[0] in run.seeds)
        if runs:
            name = f"{ENSEMBLES}/{run.path.name}"
            found[name] = SeedGroup(Setup(name, run.problem, run.recipe, run.seeds), runs)
            alike[run.problem, run.recipe] = [setup for setup in same if setup not in runs]
    for same in alike.values():
        while len(runs := _by_seed(same)) > 1:
            while len(runs) > MOST_MODELS or not fits(_ensemble(runs)):
                runs = runs[: len(runs) // 2]
            if len(runs) < 2 or (setup := _ensemble(runs)).name in found:
                break
            found[setup.name] = SeedGroup(setup, runs)
            same = [setup for setup in same if setup not in runs]
    return list(found.values())


def _ensembles(folder: Path) -> list[RunFolder]:
    """The ensembles that were begun; another process may remove one just now."""
    found = []
    for path in sorted((folder / ENSEMBLES).glob("*/run.json")):
        try:
            found.append(RunFolder(path.parent))
        except InputError:
            if path.exists():
                raise
    return found


def _by_seed(setups: Iterable[Setup]) -> tuple[Setup, ...]:
    """The first setup of every seed: the same run may be wanted under several names."""
    first: dict[int, Setup] = {}
    for setup in setups:
        first.setdefault(setup.seeds[0], setup)
    return tuple(first.values())


def _ensemble(runs: Sequence[Setup]) -> Setup:
    setup = replace(runs[0], seeds=tuple(run.seeds[0] for run in runs))
    return replace(setup, name=f"{ENSEMBLES}/{hash_of(setup)}")


def _train_group(
    group: SeedGroup, folder: Path, execution: Execution, watch: Callable[[Progress], None] | None = None
) -> None:
    """Train an ensemble for those of its runs that no other process has trained by then, and split it."""
    with _holding(folder / group.setup.name):
        runs = [run for run in group.runs if not (folder / run.name).exists()]
        if runs:
            split(train(group.setup, folder / group.setup.name, execution=execution, watch=watch), runs, folder)


@contextmanager
def _holding(ensemble: Path) -> Iterator[None]:
    """Hold an ensemble by a lock file, which exists only meanwhile; the ensemble's folder may be missing or go away.

    Raises:
        InputError: another process is working on it.
    """
    lock = ensemble.parent.with_name(f"{ENSEMBLES}-{ensemble.name}")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with locked(lock, f"another process is training in {ensemble}; wait for it, or stop it", 10.0):
        try:
            yield
        finally:
            with suppress(OSError):  # some systems cannot remove an open file
                lock.unlink()


def split(ensemble: RunFolder, setups: Sequence[Setup], folder: Path) -> None:
    """Give each of these runs of a trained ensemble its folder; the ensemble's goes if it has no other models.

    A call that was killed is made good by another: a run folder that is there is complete.

    Raises:
        InputError: a file of the ensemble is damaged.
    """
    aside = ensemble.path / _SPLIT
    shutil.rmtree(aside, ignore_errors=True)  # what a killed process left
    schedule, rows, result = ensemble.schedule, ensemble.rows(), ensemble.result
    runs: list[tuple[RunFolder, int, Schedule]] = []
    for setup in setups:
        model = ensemble.seeds.index(setup.seeds[0])
        own, alone = RunFolder.create(aside / setup.name, setup, ensemble.execution), schedule.of_model(model)
        own.append_metrics(_own_rows([row for row in rows if row.model == model], alone))
        runs.append((own, model, alone))
    for step, path in ensemble.checkpoints.items():
        _, weights = load_tensors(path, ensemble.record.content_hash)
        for own, model, alone in runs:
            last = step == result.steps  # since its own end a model has stayed as it was
            if last or (step < alone.end and alone.checkpoints(step)):
                mine = {name: tensor[model : model + 1] for name, tensor in weights.items()}
                own.save_checkpoint(alone.end if last else step, mine, last=last)
    for (own, model, alone), setup in zip(runs, setups, strict=True):
        of_model = replace(result.models[model], model=0, hash=own.model_hashes[0])
        own.finish(Result(alone.end, result.held_out, (of_model,)))
        target = folder / setup.name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            own.path.rename(target)
        except OSError:
            if not target.exists():  # else another process has just given the same run its folder
                raise
    if {setup.seeds[0] for setup in setups} == {*ensemble.seeds}:
        _remove_ensemble(ensemble.path)


def _remove_ensemble(path: Path) -> None:
    """Remove an ensemble's folder; `run.json` goes first, so that what a kill leaves of it is known for a remainder."""
    (path / "run.json").unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def _remove_split(setups: Sequence[Setup], folder: Path) -> None:
    """Remove what kills left behind: lock files, and ensembles all of whose runs have their folders."""
    for lock in folder.glob(f"{ENSEMBLES}-*"):
        with suppress(InputError), locked(lock, "in use", 0.0):
            lock.unlink(missing_ok=True)
    for run in _ensembles(folder):
        same = [setup for setup in setups if (setup.problem, setup.recipe) == (run.problem, run.recipe)]
        there = {setup.seeds[0] for setup in same if (folder / setup.name / "result.json").exists()}
        if run.finished and there >= {*run.seeds}:
            with suppress(InputError), _holding(run.path):
                _remove_ensemble(run.path)
    for path in (folder / ENSEMBLES).glob("*"):
        if not (path / "run.json").exists():
            with suppress(InputError), _holding(path):
                if not (path / "run.json").exists():
                    _remove_ensemble(path)
    with suppress(OSError):  # it is missing or not empty
        (folder / ENSEMBLES).rmdir()


def is_being_split(path: Path) -> bool:
    """Whether a file belongs to a run that is being split from an ensemble."""
    parts = path.parts
    return any(parts[n] == ENSEMBLES and parts[n + 2] == _SPLIT for n in range(len(parts) - 2))


def _own_rows(rows: Iterable[MetricsRow], schedule: Schedule) -> list[MetricsRow]:
    """The rows that a model alone would have had. The ensemble may have more in between, for other models' sake."""
    wanted = set(schedule.rows(schedule.end))
    found, before, since = [], 0, list[tuple[int, MetricsRow]]()
    for row in rows:
        since.append((row.step - before, row))
        before = row.step
        if row.step in wanted:
            found.append(replace(_joined(since), model=0))
            since.clear()
    return found


def _joined(since: Sequence[tuple[int, MetricsRow]]) -> MetricsRow:
    """The last of several rows, with training losses averaged over all; each is given with its number of updates."""
    updates, last = [number for number, _ in since], since[-1][1]
    if len(since) == 1:
        return last

    def mean(losses: Sequence[float | None]) -> float | None:
        numbers = [float("nan") if loss is None else loss for loss in losses]
        return finite_or_none(sum(n * loss for n, loss in zip(updates, numbers, strict=True)) / sum(updates))

    by_hop = zip(*(row.train_partial_losses for _, row in since), strict=True)
    return replace(
        last, train_loss=mean([row.train_loss for _, row in since]), train_partial_losses=tuple(map(mean, by_hop))
    )
