"""Models studied one by one (Sections 8 and 9): training, circuit and emergence, and verdicts over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import CircuitStore, circuit_path
from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import Plateau, plateau
from hopscope.emergence.track import emergence_path
from hopscope.errors import InputError
from hopscope.training.execution import Execution
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.schedule import Schedule
from hopscope.training.side_by_side import ProgressDisplay, finished, run_jobs, train_all
from hopscope.words import counted

MAX_LOSS = 0.05
"""A loss counts as low below this (Appendix E), whatever threshold a search was given."""

PRUNED = "heads were pruned while the models trained: what is left is small, and alike"
"""Why a claim is not run if there are no other models."""


@dataclass(frozen=True)
class ModelStudy:
    """Which models are studied one by one.

    Attributes:
        scale: the preset's name.
        setups: the setups that they are trained by.
        at: the folder of their run folders, in the reproduction's folder.
        effort: the effort of the search for circuits.
    """

    scale: str
    setups: tuple[Setup, ...] = ()
    at: str = "transformers"
    effort: Effort = "thorough"


@dataclass(frozen=True)
class Learned:
    """The outcome of training; None where a loss was not a number.

    Attributes:
        window: the validation loss as the paper takes it, the mean over the last steps.
        best: the lowest mean over as many steps, wherever these end.
        held_out: the 95% interval of the held-out loss at the end.
    """

    window: float | None
    best: float | None
    held_out: tuple[float, float] | None

    @classmethod
    def of(cls, run: RunFolder, number: int) -> Learned:
        """The outcome of training one model of a finished run."""
        result, steps, wide = run.result.models[number], run.metrics.steps, run.recipe.final_steps
        sums = np.concatenate([[0.0], np.cumsum(run.metrics.validation_loss[:, number])])
        starts = np.searchsorted(steps, steps - wide, side="right")
        means = (sums[1:] - sums[starts]) / (np.arange(len(steps)) + 1 - starts)
        whole = means[(steps >= wide) & np.isfinite(means)]
        held_out, error = result.held_out_loss, result.held_out_standard_error
        known = None if held_out is None or error is None else (held_out - 1.96 * error, held_out + 1.96 * error)
        return cls(result.final_validation_loss, float(whole.min()) if len(whole) else None, known)


@dataclass(frozen=True)
class Studied:
    """One model, with what is known of its training and its circuit.

    Attributes:
        name: the name of its run, with its number there if it is not the first: `a`, `ic-layers-4-1`.
        setup: the setup that it was trained by.
        seed: the seed it was trained from.
        number: its number within the run, from 0.
        learned: the outcome of training; None where the run itself is missing.
        circuit: the record of its circuit; None where no circuit was searched for.
        run: its finished run; None where that is missing.
    """

    name: str
    setup: Setup
    seed: int
    number: int
    learned: Learned | None
    circuit: Circuit | None
    run: RunFolder | None = None

    @property
    def imposed(self) -> ImposedCircuit | None:
        """What the Appendix E procedure found; None where it found no circuit."""
        found = self.circuit.imposed if self.circuit else None
        return found if found is not None and found.paths else None

    @property
    def decided(self) -> bool:
        """Whether its record says that there is a circuit at the paper's threshold, or that there is none."""
        return self.circuit is not None and self.circuit.max_loss == MAX_LOSS and not self.circuit.given_up

    @property
    def solves(self) -> bool:
        """Whether the model's loss is below the threshold; where no circuit was searched for, whether it surely is."""
        if self.circuit is not None:
            return self.circuit.losses["full"] < MAX_LOSS
        return self.learned is not None and self.learned.held_out is not None and self.learned.held_out[1] < MAX_LOSS

    @property
    def working(self) -> ImposedCircuit | None:
        """Its circuit by the paper's procedure, where its loss alone is below the threshold with some filling."""
        found = self.imposed
        works = found is not None and min(loss.mean for loss in found.losses.values()) < MAX_LOSS
        return found if works else None

    @property
    def pruned(self) -> bool:
        """Whether heads were removed while it trained, which makes the circuits of what is left small."""
        return self.setup.recipe.prune_every is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads per layer, and hops."""
        return self.setup.recipe.layers, self.setup.recipe.heads, self.setup.problem.hops


@dataclass(frozen=True)
class FollowedModel:
    """One model followed through training.

    Attributes:
        model: the model, with its circuit.
        final: how that circuit came to be; None where this is not known.
        imposed: the same of its circuit by the Appendix E procedure.
        metrics: the metrics of its run; None where the run itself is missing.
    """

    model: Studied
    final: Emergence | None
    metrics: Metrics | None
    imposed: Emergence | None = None

    @property
    def training(self) -> tuple[Plateau, int] | None:
        """Plateau and number of steps; where the run is missing, by the record of the followed circuit, or None."""
        if self.metrics is not None:
            setup, number = self.model.setup, self.model.number
            end = min(Schedule.of(setup.recipe, self.metrics).of_model(number).end, int(self.metrics.steps[-1]))
            regular = self.metrics.every(setup.recipe.log_every)
            return plateau(regular, setup.problem.chains, number), end
        return (self.final.plateau, self.final.total_steps) if self.final else None


def read_models(setups: Sequence[Setup], folder: Path) -> tuple[Studied, ...]:
    """The models of these setups whose run is finished in `folder`, or for which there is a record of a circuit.

    `InputError` where a run or record is damaged, or belongs to another setup.
    """
    runs = finished(setups, folder)
    found = []
    for setup in setups:
        run = runs.get(setup.name)
        for number, seed in enumerate(setup.seeds):
            circuit = _circuit(folder / setup.name, setup, number, run)
            if run or circuit:
                name = f"{setup.name}-{number}" if number else setup.name
                learned = Learned.of(run, number) if run else None
                found.append(Studied(name, setup, seed, number, learned, circuit, run))
    return tuple(found)


def _circuit(folder: Path, setup: Setup, number: int, run: RunFolder | None) -> Circuit | None:
    """The record of a model's circuit; None where there is no file. The run may be missing."""
    path = circuit_path(folder, number)
    if not path.exists():
        return None
    return CircuitStore(run).load(number) if run is not None else Circuit.load(path, setup.content_hash)


def read_followed(model: Studied, folder: Path) -> FollowedModel:
    """How the circuit of a model of a run in `folder` came to be; `InputError` if a record is not of the model."""
    final, imposed = (_history(folder / model.setup.name, model, patterns) for patterns in ("own", "imposed"))
    return FollowedModel(model, final, model.run.metrics if model.run else None, imposed)


def _history(folder: Path, model: Studied, patterns: Patterns) -> Emergence | None:
    """How a model's circuit came to be; None where it was not followed, or where another circuit of it was."""
    path = emergence_path(folder, model.number, patterns=patterns)
    if model.circuit is None or not path.exists():
        return None
    history = Emergence.load(path)
    of = model.run.model_hashes[model.number] if model.run is not None else model.circuit.model
    if (history.run, history.number, history.model) != (model.setup.content_hash, model.number, of):
        raise InputError(
            f"{path} is of another model; it was left untouched: move it away, and the history is measured again"
        )
    return history if history.follows(model.circuit, patterns) else None


def do_for_every_model(
    task: str,
    function: Callable[[Path, int, Effort], None],
    study: ModelStudy,
    folder: Path,
    execution: Execution,
    display: ProgressDisplay,
) -> None:
    """Train what is not trained yet, and call `function(run, number, effort)` for every model, in parallel."""
    with display.runs(study.setups) as progress:
        train_all(study.setups, folder / study.at, execution=execution, progress=progress)
    models = [(setup.name, number) for setup in study.setups for number in range(len(setup.seeds))]
    jobs = [(folder / study.at / name, number, study.effort) for name, number in models]
    run_jobs(task, function, jobs, execution, display)


def shape_in_words(models: Sequence[Studied]) -> str:
    """The models in words: `D = 3, 4 layers x 8 heads, 2 seeds`."""
    layers, heads, hops = models[0].shape
    return f"D = {hops}, {counted(layers, 'layer')} x {counted(heads, 'head')}, {counted(len(models), 'seed')}"


def ranged(values: Sequence[float]) -> str:
    """Lowest and highest value in words: `0.17 to 0.89`."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def losses(values: Sequence[float | None]) -> str:
    """Losses in words: `0.012, diverged`."""
    return ", ".join("diverged" if value is None else f"{value:.4f}" for value in values)
