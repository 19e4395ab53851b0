"""The records of a model that a page shows: its circuit, emergence and weights, and a list of missing records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hopscope.checks import check_count
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.store import CircuitStore, circuit_path
from hopscope.emergence.history import MAPS_OVER_TIME, Emergence, MapsOverTime
from hopscope.emergence.track import emergence_path, maps_over_time_path
from hopscope.errors import InputError
from hopscope.model.fast import single
from hopscope.model.transformer import Transformer
from hopscope.training.metrics import Metrics
from hopscope.training.run import Result, RunFolder
from hopscope.words import counted


@dataclass(frozen=True)
class Exhibit:
    """The records of one model that a page shows; a record that is missing is None.

    Attributes:
        run: the run that the model belongs to.
        number: the number of the model within the run, from 0.
        circuit: the record of the model's circuit.
        emergence: the emergence of the circuit over the checkpoints.
        maps: the role maps of every head at the same checkpoints.
        metrics: the metrics of training.
        transformer: the model at the last checkpoint, without the other models of its run; all weights are finite.
        result: the result of the run.
        missing: a sentence for each missing record, which says how to make the record.
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

    @property
    def name(self) -> str:
        """The name that the page shows: the run's folder and the seed."""
        return f"{self.run.path.resolve().name}, seed {self.run.seeds[self.number]}"

    @property
    def steps(self) -> int:
        """The last step of training, as far as it is decided."""
        return self.run.schedule.of_model(self.number).end

    @property
    def facts(self) -> str:
        """The architecture, the problem and the number of steps, in one line."""
        recipe, problem = self.run.recipe, self.run.problem
        heads = counted(recipe.heads, "head")
        if recipe.prune_every is not None and self.metrics is not None and len(self.metrics):
            heads += f" ({self.metrics.heads[-1, self.number]:.0f} left)"
        return (
            f"{recipe.layers} layers × {heads}, width {recipe.d_model}, {'MLP' if recipe.mlp else 'no MLP'}; "
            f"D = {problem.hops} hops, N = {problem.chains} chains, {problem.order_in_words}; {self.steps:,} steps"
        )


def exhibits(runs: Sequence[RunFolder], model: int | None = None) -> list[Exhibit]:
    """Return the models to show of some runs: model `model` of each run or, by default, all with a circuit's record.

    If no model of a run has such a record, the first model is shown.

    Raises:
        InputError: there is no run, a run has no such model, or a model has nothing to show.
    """
    if not runs:
        raise InputError("there is no run to explore; give the folder of at least one run")
    shown = []
    for run in runs:
        count = len(run.seeds)
        if model is not None:
            check_count(f"the model of {run.path}", model, 0, count - 1)
        searched = [number for number in range(count) if circuit_path(run.path, number).exists()] or [0]
        shown += [exhibit(run, number) for number in (searched if model is None else [model])]
    return shown


def exhibit(run: RunFolder, number: int) -> Exhibit:
    """Read the records of one model.

    Raises:
        InputError: a record is damaged or of another model, or there is nothing to show, since there is no checkpoint,
            no circuit and no metrics.
    """
    missing, circuit, which = list[str](), None, f" --model {number}" if number else ""
    metrics = run.metrics if len(run.metrics) else None
    if metrics is None:
        missing.append("The run has no metrics: losses over training are not shown.")
    if circuit_path(run.path, number).exists():
        circuit = CircuitStore(run).load(number)
    else:
        missing.append(f"No circuit was searched for: `hopscope circuit {run.path}{which}`.")
    history = maps = None
    if circuit and circuit.found:
        history, maps = _emergence(run, number, circuit, f"`hopscope emergence {run.path}{which}`", missing)
    transformer = _weights(run, number, missing)
    if circuit is None and transformer is None and metrics is None:
        raise InputError(f"{run.path} has no checkpoint, no circuit and no metrics yet: there is nothing to show")
    result = run.result if run.finished else None
    return Exhibit(run, number, circuit, history, maps, metrics, transformer, result, tuple(missing))


def _emergence(
    run: RunFolder, number: int, circuit: Circuit, follow: str, missing: list[str]
) -> tuple[Emergence | None, MapsOverTime | None]:
    """Return the emergence of the circuit, and the role maps at the same checkpoints; None if missing."""
    path, maps_path = emergence_path(run.path, number), maps_over_time_path(run.path, number)
    if not path.exists():
        missing.append(f"The circuit was not followed through training: {follow} (the run needs checkpoints).")
        return None, None
    history = Emergence.load(path)
    if not (history.model == run.model_hashes[number] and history.follows(circuit)):
        missing.append(f"The run's emergence is of another circuit and not shown: {follow} --overwrite.")
        return None, None
    maps = MAPS_OVER_TIME.read(maps_path, run.hash) if maps_path.exists() else None
    if maps is None or maps.steps != history.steps:
        missing.append(f"The role maps over time of this emergence are missing: {follow} --overwrite.")
        maps = None
    return history, maps


def _weights(run: RunFolder, number: int, missing: list[str]) -> Transformer | None:
    """Return the model at the last checkpoint, without the other models of its run; None if missing or not finite."""
    if not run.checkpoints:
        missing.append("The run has no checkpoint, and without weights nothing can be cut here.")
        return None
    transformer = single(run.transformer(), number)
    if all(bool(torch.isfinite(weight).all()) for weight in transformer.state_dict().values()):
        return transformer
    missing.append("Training diverged and the weights are not finite, so nothing can be cut here.")
    return None
