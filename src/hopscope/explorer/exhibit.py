"""What a page shows of a model: its circuit, its emergence, its weights, and what is missing, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.store import CircuitStore, circuit_path
from hopscope.emergence.history import Emergence, MapsOverTime
from hopscope.emergence.track import emergence_path, maps_over_time_path
from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.training.metrics import Metrics
from hopscope.training.run import Result, RunFolder
from hopscope.words import counted

T = TypeVar("T")


@dataclass(frozen=True)
class Exhibit:
    """One model as it is shown.

    Attributes:
        run: the run that it belongs to.
        number: its number within the run, from 0.
        circuit: the record of its circuit; None where it is missing or cannot be read.
        emergence: how that circuit came to be, over the checkpoints.
        maps: the role maps of every head at the same checkpoints.
        metrics: the metrics of training; None where they cannot be read or have no rows.
        transformer: the model at the last checkpoint, without the others of its run; None without finite weights.
        result: the result of the run; None where it is not finished or its result cannot be read.
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
    def seed(self) -> int:
        """The seed it was trained from."""
        return self.run.seeds[self.number]

    @property
    def name(self) -> str:
        """Its name for people: the run's folder and the seed."""
        return f"{self.run.path.resolve().name}, seed {self.seed}"

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
        InputError: there is no run, a run is given twice, there is no such model, a run is not of chains, or there is
            nothing to show of it.
    """
    if not runs:
        raise InputError("there is no run to explore; give the folder of at least one")
    seen: set[Path] = set()
    for run in runs:
        if run.path.resolve() in seen:
            raise InputError(f"{run.path} is given twice; name each run once")
        seen.add(run.path.resolve())
        if run.problem.graph != "chain":
            raise InputError(f"the explorer shows models of chains, and {run.path} is of {run.problem.graph}")
    return [exhibit(run, number) for run in runs for number in _numbers(run, model)]


def _numbers(run: RunFolder, model: int | None) -> list[int]:
    count = len(run.seeds)
    if model is None:
        return [number for number in range(count) if circuit_path(run.path, number).exists()] or [0]
    if not 0 <= model < count:
        raise InputError(f"model must be from 0 to {count - 1} ({run.path} has {count}), got {model}")
    return [model]


def exhibit(run: RunFolder, number: int) -> Exhibit:
    """Read the records of one model. What is damaged or belongs to something else is left out, and the page says so.

    Raises:
        InputError: there is nothing to show: no checkpoint, no circuit and no metrics.
    """
    missing, damaged = list[str](), list[str]()
    which = f" --model {number}" if number else ""
    find, follow = f"`hopscope circuit {run.path}{which}`", f"`hopscope emergence {run.path}{which}`"
    never = f"No circuit was looked for: {find}."
    of_run = partial(Circuit.load, run=run.hash)
    circuit = _read(circuit_path(run.path, number), of_run, never, missing, damaged)
    transformer = _weights(run, number, missing, damaged)
    metrics, result = _metrics(run, missing, damaged), _result(run, damaged)
    known = metrics is not None  # by which the checkpoints are told from the end
    if circuit is not None and not (CircuitStore(run).is_of(circuit, number) if known else circuit.number == number):
        missing.append(
            "The circuit beside the run is of another model, or of this one as it was before, and is not shown; find "
            f"this one's with {find}."
        )
        circuit = None
    history = maps = None
    if circuit is not None and circuit.found:
        never = f"The circuit was not followed through training: {follow} (the run needs checkpoints)."
        history = _read(emergence_path(run.path, number), Emergence.load, never, missing, damaged)
        if history is not None and not (history.model == circuit.model and history.follows(circuit)):
            missing.append(f"The emergence beside the run is of another circuit and not shown: {follow} --overwrite.")
            history = None
        if history is not None:
            gone = f"The role maps over time are not there: {follow} --overwrite."
            maps = _read(maps_over_time_path(run.path, number), MapsOverTime.load, gone, missing, damaged)
            if maps is not None and not _goes_with(maps, history):
                missing.append(f"The role maps over time are of another emergence and not shown: {follow} --overwrite.")
                maps = None
    if circuit is None and transformer is None and metrics is None:
        raise InputError(f"{run.path} has no checkpoint, no circuit and no metrics yet: there is nothing to show")
    return Exhibit(run, number, circuit, history, maps, metrics, transformer, result, (*missing, *damaged), (*damaged,))


def _read(path: Path, load: Callable[[Path], T], never: str, missing: list[str], damaged: list[str]) -> T | None:
    if not path.exists():
        missing.append(never)
        return None
    try:
        return load(path)
    except InputError as error:
        damaged.append(f"{error}.")
        return None


def _weights(run: RunFolder, number: int, missing: list[str], damaged: list[str]) -> Transformer | None:
    """The model without the others of its run, as the last checkpoint has it."""
    import torch

    from hopscope.circuits.evaluate.vector_evaluator import single

    try:
        transformer = single(run.transformer(), number)
    except InputError as error:
        (damaged if run.checkpoints else missing).append(f"Without weights nothing can be cut here: {error}.")
        return None
    if not all(bool(torch.isfinite(weight).all()) for weight in transformer.state_dict().values()):
        missing.append("The weights are not finite: training had diverged. Nothing can be cut here.")
        return None
    return transformer


def _metrics(run: RunFolder, missing: list[str], damaged: list[str]) -> Metrics | None:
    try:
        metrics = run.metrics
    except InputError as error:
        damaged.append(f"{error}.")
        return None
    if not len(metrics):
        missing.append("The run has no metrics: losses over training are not shown.")
        return None
    return metrics


def _result(run: RunFolder, damaged: list[str]) -> Result | None:
    if not run.finished:
        return None
    try:
        result = run.result
    except InputError as error:
        damaged.append(f"{error}.")
        return None
    if tuple(model.seed for model in result.models) != run.seeds:
        damaged.append(f"{run.path / 'result.json'} is not of the models of this run and is not shown.")
        return None
    return result


def _goes_with(maps: MapsOverTime, history: Emergence) -> bool:
    shape = (history.steps, history.layers, history.heads, 2 * history.hops + 1)
    return (maps.steps, maps.layers, maps.heads, len(maps.roles)) == shape
