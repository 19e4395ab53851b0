"""Many runs side by side: in several processes of this machine, or on a Ray cluster.

The run folders are the ledger: a run that is finished is not touched, and one that was cut short continues, also if it
was the driver of the cluster that was killed. On a cluster they are on a path that every machine sees.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hopscope.errors import InputError, in_a_line, needs_extra
from hopscope.processes import claim_process, in_processes, tune_process
from hopscope.training.execution import (
    FASTEST,
    Execution,
    RayCluster,
    available_cores,
    check_memory,
    default_device,
    threads_by_default,
    using_threads,
)
from hopscope.training.metrics import MetricsRow
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import Progress, train

RunsProgress = Callable[[dict[str, Progress]], None]
"""A function that is called with the progress of every run, by the setup's name."""


@dataclass(frozen=True)
class ProgressDisplay:
    """How work is shown, by contexts that give the function to call as it goes on: `runs`, the training of some setups;
    `jobs`, how many of a number of jobs of some kind are done."""

    runs: Callable[[Sequence[Setup]], AbstractContextManager[RunsProgress | None]] = lambda setups: nullcontext()
    jobs: Callable[[str, int], AbstractContextManager[Callable[[int], None] | None]] = lambda what, number: (
        nullcontext()
    )


SILENT = ProgressDisplay()
"""Nothing is shown."""

_LIVES = 50
"""How often the worker of one run may be killed before the run itself is taken to be the cause."""


def train_all(
    setups: Sequence[Setup],
    folder: Path,
    *,
    execution: Execution = FASTEST,
    cluster: RayCluster | None = None,
    progress: RunsProgress | None = None,
) -> None:
    """Train every setup into `folder / setup.name`, the longest run first.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> problem = hs.RetrievalProblem(hops=1)
        >>> setups = [hs.Setup(f"seed-{seed}", problem, few, (seed,)) for seed in (0, 1)]
        >>> hs.train_all(setups, folder / "runs", execution=hs.Execution("cpu", workers=1))
        >>> (folder / "runs" / "seed-1" / "result.json").exists()
        True

    Each worker trains runs on its share of the cores; on a GPU there is one worker unless `execution` has more.

    Args:
        setups: what to train; finished runs are skipped.
        folder: the folder that holds their run folders; every machine of a cluster must see it.
        execution: how steps are computed; its threads are shared among its workers, at most one per run.
        cluster: a Ray cluster to train on, in place of this machine; it decides about device and threads.
        progress: called now and then with the progress of every run.

    Raises:
        InputError: names repeat, a run does not fit into memory, a folder is in use for something else, or the cluster
            cannot be reached or has no room for one run.
    """
    left = unfinished(setups, folder)

    def show() -> None:
        if progress is not None:
            progress(progress_of(setups, folder))

    if cluster is not None:
        if left:
            _train_on_ray(left, folder, execution, cluster, show)
        show()
        return
    device = execution.device or default_device()
    cores = execution.threads or available_cores()
    workers = min(execution.workers or (cores if device == "cpu" else 1), max(1, len(left)))
    share = max(1, cores // workers)
    if execution.threads is None:
        share = min(share, threads_by_default())
    each = replace(execution, device=device, threads=share)
    for setup in left:  # before training any, so that none is refused after others were trained
        check_memory(setup, each.resolve(setup))
    if workers > 1:
        in_processes(_train, [(setup, folder / setup.name, each) for setup in left], workers, lambda _: show())
    else:
        for setup in left:
            train(setup, folder / setup.name, execution=each, progress=lambda _: show())
    show()


def _train(setup: Setup, folder: Path, execution: Execution) -> None:
    """Train one run in a worker process, which runs nothing but hopscope."""
    claim_process()
    tune_process()
    train(setup, folder, execution=execution)


def _train_on_ray(
    setups: Sequence[Setup], folder: Path, execution: Execution, cluster: RayCluster, tick: Callable[[], None]
) -> None:
    """Train setups into `folder / setup.name` on a cluster, in this order; the first failure stops the others."""
    each = replace(execution, device="cuda" if cluster.gpus_each else "cpu", threads=cluster.cpus_each)
    with _connected(cluster) as ray:
        task = ray.remote(num_cpus=cluster.cpus_each, num_gpus=cluster.gpus_each, max_retries=_LIVES)(_train)
        pending = [task.remote(setup, folder.resolve() / setup.name, each) for setup in setups]
        try:
            while pending:
                done, pending = ray.wait(pending, timeout=1.0)
                ray.get(done)
                tick()
        except BaseException as error:
            for run in pending:
                ray.cancel(run, force=True)
            if isinstance(cause := getattr(error, "cause", None), InputError):
                raise cause from None
            raise


@contextmanager
def _connected(cluster: RayCluster) -> Iterator[Any]:
    """Ray connected to the cluster, or to one that lasts as long as the context; a connection that exists is used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise needs_extra("training on a cluster", "Ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise InputError(
            f"no Ray cluster answers at {cluster.address!r} ({in_a_line(error)}); start one with ray start"
        ) from None
    try:
        for kind, needed in (("CPU", cluster.cpus_each), ("GPU", cluster.gpus_each)):  # or the run would wait for ever
            largest = max((node["Resources"].get(kind, 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
            if needed > largest:
                raise InputError(f"a run needs {needed:g} {kind}, and no machine of the cluster has over {largest:g}")
        yield ray
    finally:
        ray.shutdown()


def run_jobs(
    what: str,
    function: Callable[..., None],
    jobs: Sequence[tuple[Any, ...]],
    execution: Execution,
    display: ProgressDisplay,
) -> None:
    """Call a function of a module with each of the jobs, each on one thread; a single job, or all of a single worker,
    in this process: another would have to load everything once more."""
    workers = min(execution.workers or available_cores(), len(jobs))
    with display.jobs(what, len(jobs)) if jobs else nullcontext() as shown:
        show = shown or (lambda done: None)
        if workers > 1:
            in_processes(_on_one_thread, [(function, *job) for job in jobs], workers, lambda done: show(len(done)))
            return
        for number, job in enumerate(jobs, 1):
            _on_one_thread(function, *job)
            show(number)


def _on_one_thread(function: Callable[..., None], *job: Any) -> None:
    with using_threads(1):
        function(*job)


def unfinished(setups: Sequence[Setup], folder: Path) -> list[Setup]:
    """The setups whose run is not finished, the longest first. Names must differ and run folders be their own."""
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    for setup in setups:
        if (folder / setup.name / "run.json").exists():
            RunFolder(folder / setup.name).require(setup)
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return sorted(left, key=lambda setup: -setup.work)


def finished(setups: Iterable[Setup], folder: Path) -> dict[str, RunFolder]:
    """The finished runs, by name; a run folder that holds another run is refused."""
    there = [setup for setup in setups if (folder / setup.name / "result.json").exists()]
    return {setup.name: RunFolder(folder / setup.name).require(setup) for setup in there}


_ROWS_READ = 1 << 16
"""Bytes at the end of the metrics in which the last row is looked for."""


def progress_of(setups: Iterable[Setup], folder: Path) -> dict[str, Progress]:
    """The progress of every run, by the setup's name, read from its folder; a run without a folder is at step 0. Of the
    losses those of the last model."""
    found = {}
    for setup in setups:
        row = None
        with suppress(OSError, ValueError, IndexError):  # there is no row yet, or it is damaged
            row = msgspec.json.decode(_end_of(folder / setup.name / "metrics.jsonl").split(b"\n")[-2], type=MetricsRow)
        step, steps = row.step if row else 0, setup.recipe.steps
        if (folder / setup.name / "result.json").exists():
            step = steps = step or steps  # that rows of a finished run are missing is reported when it is opened
        found[setup.name] = Progress(step, steps, (row.partial_losses,) if row else ())
    return found


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _ROWS_READ))
        return file.read()
