"""Many runs: bundles of same-shape models, trained by several processes of this machine.

A bundle is one run folder: an ensemble that differs by its seeds alone. The folders are the ledger: a bundle whose run
is finished is not touched, one that was cut short continues, and nothing else has to be remembered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from hopscope.errors import InputError
from hopscope.parallel import in_processes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.engine import Precision, available_cores, choose_engine
from hopscope.training.recipe import Recipe
from hopscope.training.run_folder import RunFolder
from hopscope.training.trainer import train


@dataclass(frozen=True)
class Bundle:
    """An ensemble to be trained.

    Attributes:
        name: of its run folder.
        problem: what on.
        recipe: how.
        seeds: one a model.
    """

    name: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...]

    @property
    def work(self) -> int:
        """Steps of single blocks: what the bundle costs, beside others of its width."""
        return self.recipe.layers * self.recipe.steps * len(self.seeds)


@dataclass(frozen=True)
class Standing:
    """Where a bundle stands.

    Attributes:
        step: updates done.
        steps: updates in all.
        partial_losses: latest validation losses by model and hop asked for; null where a model diverged.
    """

    step: int
    steps: int
    partial_losses: tuple[tuple[float | None, ...], ...] = ()


def train_bundles(
    bundles: Sequence[Bundle],
    folder: Path,
    *,
    workers: int | None = None,
    device: str | None = None,
    precision: Precision | Literal["auto"] = "auto",
    compiled: bool | None = None,
    watch: Callable[[dict[str, Standing]], None] | None = None,
) -> None:
    """Train every bundle into `folder / bundle.name`, the longest first.

    On a CPU small models gain little from a second thread and everything from a second process, so each of `workers`
    processes trains bundles on its share of the cores. On a GPU one process trains one bundle after the other.

    Args:
        bundles: what to train; finished ones are skipped.
        folder: where their run folders are.
        workers: processes; `None` for one a core, at most one a bundle.
        device: as in `choose_engine`.
        precision: as in `choose_engine`.
        compiled: as in `choose_engine`.
        watch: told now and then where every bundle stands.

    Raises:
        InputError: names that repeat, workers below 1, or a folder in use for something else.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    left = unfinished(bundles, folder)
    cores = available_cores()
    workers = workers or (min(cores, max(1, len(left))) if device == "cpu" else 1)
    options = (device, max(1, cores // workers), precision, compiled)
    if not left:
        pass
    elif workers == 1 and watch is None:
        for bundle in left:
            train_bundle(bundle, folder, *options)
    else:
        jobs = [(bundle, folder, *options) for bundle in left]
        tick = None if watch is None else lambda: watch(standings(bundles, folder))
        in_processes(train_bundle, jobs, workers, tick)
    if watch is not None:
        watch(standings(bundles, folder))


def unfinished(bundles: Sequence[Bundle], folder: Path) -> list[Bundle]:
    """The bundles whose run is not at its end, the longest first.

    Raises:
        InputError: names that repeat.
    """
    if len({bundle.name for bundle in bundles}) != len(bundles):
        raise InputError("two bundles have the same name; give each its own")
    left = [bundle for bundle in bundles if not (folder / bundle.name / "result.json").exists()]
    return sorted(left, key=lambda bundle: -bundle.work)


def finished(bundles: Iterable[Bundle], folder: Path) -> dict[str, RunFolder]:
    """The runs that are at their end, by name.

    Raises:
        InputError: a run folder of that name holds another run.
    """
    runs = {}
    for bundle in bundles:
        if (folder / bundle.name / "result.json").exists():
            run = RunFolder(folder / bundle.name)
            runs[bundle.name] = run.require(bundle.problem, bundle.recipe, bundle.seeds)
    return runs


def standings(bundles: Iterable[Bundle], folder: Path) -> dict[str, Standing]:
    """Where every bundle stands, read from its run folder."""
    found = {}
    for bundle in bundles:
        rows = _last_rows(folder / bundle.name)
        step = rows[-1]["step"] if rows else 0
        losses = tuple(tuple(row["partial_losses"]) for row in rows if row["step"] == step)
        found[bundle.name] = Standing(step, bundle.recipe.steps, losses)
    return found


def train_bundle(
    bundle: Bundle,
    folder: Path,
    device: str,
    threads: int,
    precision: Precision | Literal["auto"],
    compiled: bool | None,
) -> None:
    """Train one bundle in this process; the arguments as in `choose_engine`."""
    engine = choose_engine(
        bundle.recipe.architecture(bundle.problem),
        models=len(bundle.seeds),
        rows=bundle.recipe.batch_size * bundle.problem.sequence_length,
        steps=bundle.recipe.steps,
        device=device,
        threads=threads,
        precision=precision,
        compiled=compiled,
    )
    train(bundle.recipe, bundle.problem, folder / bundle.name, seeds=bundle.seeds, engine=engine)


def _last_rows(run: Path) -> list[dict[str, Any]]:
    """The last whole rows of a run's metrics that a few kilobytes hold; none before the first."""
    try:
        with (run / "metrics.jsonl").open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - 16384)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines[1 if start else 0 :]]
