"""What a page shows of a model: its circuit, emergence and weights, and what is missing; a compact copy of all that."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.store import CircuitStore, circuit_path
from hopscope.emergence.history import Emergence, MapsOverTime
from hopscope.emergence.track import emergence_path, maps_over_time_path
from hopscope.errors import InputError
from hopscope.explorer.arrays import halved
from hopscope.model.fast import single
from hopscope.model.transformer import Transformer
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Setup
from hopscope.training.run import Result, RunFolder
from hopscope.words import counted

T = TypeVar("T")


@dataclass(frozen=True)
class Exhibit:
    """One model as it is shown.

    Attributes:
        run: the run that it belongs to.
        number: its number within the run, from 0.
        circuit: the record of its circuit; like what follows, None where it is missing or cannot be read.
        emergence: how that circuit came to be, over the checkpoints.
        maps: the role maps of every head at the same checkpoints.
        metrics: the metrics of training.
        transformer: the model at the last checkpoint, without the others of its run; finite.
        result: the result of the run.
        missing: what is missing and how to get it, a sentence each.
        damaged: of these, what cannot be read, or should be there and is not.
    """

    run: RunFolder
    number: int
    circuit: Circuit | None
    emergence: Emergence | None
    maps: MapsOverTime | None
    metrics: Metrics | None
    transformer: Transformer | None
    result: Result | None
    missing: tuple[str, ...]
    damaged: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name for people: the run's folder and the seed."""
        return f"{self.run.path.resolve().name}, seed {self.run.seeds[self.number]}"

    @property
    def steps(self) -> int:
        """Its last step, as far as that is decided."""
        if self.metrics is not None:
            return self.run.schedule.of_model(self.number).end
        return self.run.recipe.steps if self.result is None else self.result.steps

    @property
    def facts(self) -> str:
        """In one line, what was trained and on what."""
        recipe, problem = self.run.recipe, self.run.problem
        heads = counted(recipe.heads, "head")
        if recipe.prune_every is not None and self.metrics is not None and len(self.metrics):
            heads += f" ({self.metrics.heads[-1, self.number]:.0f} left)"
        return (
            f"{recipe.layers} layers × {heads}, width {recipe.d_model}, {'MLP' if recipe.mlp else 'no MLP'}; "
            f"D = {problem.hops} hops, N = {problem.chains} chains, {problem.order_in_words}; {self.steps:,} steps"
        )


def exhibits(runs: Sequence[RunFolder], model: int | None = None) -> list[Exhibit]:
    """The models of some runs: of each the one of the given number; else all with a circuit's record, else the first.

    Raises:
        InputError: there is no run or no such model, a run is not of chains, or there is nothing to show of it.
    """
    if not runs:
        raise InputError("there is no run to explore; give the folder of at least one")
    shown = []
    for run in runs:
        count = len(run.seeds)
        if run.problem.graph != "chain":
            raise InputError(f"the explorer shows models of chains, and {run.path} is of {run.problem.graph}")
        if model is not None and not 0 <= model < count:
            raise InputError(f"model must be from 0 to {count - 1} ({run.path} has {count}), got {model}")
        searched = [number for number in range(count) if circuit_path(run.path, number).exists()] or [0]
        shown += [exhibit(run, number) for number in (searched if model is None else [model])]
    return shown


def exhibit(run: RunFolder, number: int) -> Exhibit:
    """Read the records of one model. What is damaged or belongs to something else is left out, and the page says so.

    Raises:
        InputError: there is nothing to show: no checkpoint, no circuit and no metrics.
    """
    missing, damaged = list[str](), list[str]()
    which = f" --model {number}" if number else ""
    find, follow = f"`hopscope circuit {run.path}{which}`", f"`hopscope emergence {run.path}{which}`"
    metrics = _read(lambda: run.metrics, damaged)
    if metrics is not None and not len(metrics):
        metrics = None
        missing.append("The run has no metrics: losses over training are not shown.")
    result = _read(lambda: run.result, damaged) if run.finished else None
    circuit = maps = history = None
    if (path := circuit_path(run.path, number)).exists():
        circuit = _read(lambda: Circuit.load(path, run.hash), damaged)
    else:
        missing.append(f"No circuit was searched for: {find}.")
    # By the metrics the end is known from other checkpoints.
    if circuit and not (CircuitStore(run).is_of(circuit, number) if metrics else circuit.number == number):
        circuit = None
        missing.append(
            "The circuit beside the run is of another model, or of this one as it was before, and is not shown; find "
            f"this one's with {find}."
        )
    if circuit and circuit.found:
        history, maps = _emergence(run, number, circuit, follow, missing, damaged)
    transformer = _weights(run, number, missing, damaged)
    if circuit is None and transformer is None and metrics is None:
        raise InputError(f"{run.path} has no checkpoint, no circuit and no metrics yet: there is nothing to show")
    return Exhibit(run, number, circuit, history, maps, metrics, transformer, result, (*missing, *damaged), (*damaged,))


def _read(read: Callable[[], T], damaged: list[str]) -> T | None:
    """What is read, or None and a sentence on what is damaged."""
    try:
        return read()
    except InputError as error:
        damaged.append(f"{error}.")
        return None


def _emergence(
    run: RunFolder, number: int, circuit: Circuit, follow: str, missing: list[str], damaged: list[str]
) -> tuple[Emergence | None, MapsOverTime | None]:
    """How the circuit came to be, and the role maps at the same checkpoints."""
    path, maps_path = emergence_path(run.path, number), maps_over_time_path(run.path, number)
    if not path.exists():
        missing.append(f"The circuit was not followed through training: {follow} (the run needs checkpoints).")
        return None, None
    history = _read(lambda: Emergence.load(path), damaged)
    if history is None or not (history.model == circuit.model and history.follows(circuit)):
        if history is not None:
            missing.append(f"The emergence beside the run is of another circuit and not shown: {follow} --overwrite.")
        return None, None
    maps = _read(lambda: MapsOverTime.load(maps_path), damaged) if maps_path.exists() else None
    if maps is None or maps.steps != history.steps:
        missing.append(f"There are no role maps over time of this emergence: {follow} --overwrite.")
        maps = None
    return history, maps


def _weights(run: RunFolder, number: int, missing: list[str], damaged: list[str]) -> Transformer | None:
    """The model without the others of its run, as the last checkpoint has it."""
    try:
        transformer = single(run.transformer(), number)
        if all(bool(torch.isfinite(weight).all()) for weight in transformer.state_dict().values()):
            return transformer
        missing.append("The weights are not finite: training had diverged. Nothing can be cut here.")
    except InputError as error:
        (damaged if run.checkpoints else missing).append(f"Without weights nothing can be cut here: {error}.")
    return None


def compact_export(run: RunFolder, folder: Path) -> RunFolder:
    """Copy a finished run into a new or empty folder: its records, and its last weights in half precision.

    The page of the copy is the page of the run, in a tenth of its size on the disk. Nothing can be resumed from it.

    Raises:
        InputError: the run is not finished, or the folder holds something else.
    """
    if not run.finished:
        raise InputError(f"{run.path} is not finished; train it to its end before it is copied")
    inside = run.path.resolve() in folder.resolve().parents
    if inside or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        why = f"lies in the run {run.path}" if inside else "is in use"
        raise InputError(f"{folder} {why}; choose a new or empty folder for the copy")
    end = run.schedule.end
    copy = RunFolder.create(folder, Setup(folder.name, run.problem, run.recipe, run.seeds), run.execution)
    copy.append_metrics(run.rows())
    copy.save_checkpoint(end, halved(run.transformer(end)), last=True)
    for number in range(len(run.seeds)):
        for path in (circuit_path, emergence_path, maps_over_time_path):
            if path(run.path, number).exists():
                shutil.copyfile(path(run.path, number), path(copy.path, number))
    copy.finish(run.result)
    return copy
