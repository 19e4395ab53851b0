"""Models of a reproduction that are studied one by one (Sections 8 and 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import CircuitStore
from hopscope.display import Display, reporting
from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import Plateau, plateau
from hopscope.emergence.track import emergence_path
from hopscope.errors import UNTOUCHED, InputError
from hopscope.processes import in_processes
from hopscope.training.execution import Execution, available_cores, using_threads
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import finished, train_all
from hopscope.words import counted

MAX_LOSS = 0.05
"""A loss below this value counts as low (Appendix E), whatever threshold a search used."""

PRUNED = "heads were pruned while the models trained: what is left is small, and alike"
"""The reason why a claim is not run if heads were pruned in all models."""


@dataclass(frozen=True)
class ModelStudy:
    """The models that are studied one by one.

    Attributes:
        scale: the preset's name.
        setups: the setups of models whose circuits are found and compared (Section 8).
        followed: the setups of models whose heads are followed as they emerge (Section 9).
        at: the folder of the run folders, within the reproduction's folder.
        effort: the effort of the search for circuits.
    """

    scale: str
    setups: tuple[Setup, ...] = ()
    followed: tuple[Setup, ...] = ()
    at: str = "transformers"
    effort: Effort = "thorough"

    @property
    def all(self) -> tuple[Setup, ...]:
        """All setups of both kinds, each once."""
        return tuple(dict.fromkeys((*self.followed, *self.setups)))


@dataclass(frozen=True)
class Learned:
    """The outcome of training; None if a loss was not a number.

    Attributes:
        window: the validation loss by the paper's definition, the mean over the last steps.
        best: the lowest mean validation loss over the same number of successive steps.
        held_out: the 95% interval of the held-out loss at the end.
    """

    window: float | None
    best: float | None
    held_out: tuple[float, float] | None

    @classmethod
    def of(cls, run: RunFolder, number: int) -> Learned:
        """Return the outcome of training one model of a finished run."""
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
    """One model, with the results of its training and the records of its circuit.

    Attributes:
        name: the name of the run, followed by the model's number unless the number is 0: `a`, `ic-layers-4-1`.
        setup: the setup that the model was trained with.
        seed: the seed that the model was trained from.
        number: the model's number within the run, from 0.
        run: the finished run.
        learned: the outcome of training.
        circuit: the record of the model's circuit; None if no circuit was searched for.
        emergence: the emergence of that circuit; None if the circuit was not followed.
        imposed_emergence: the emergence of the circuit that the Appendix E procedure found.
    """

    name: str
    setup: Setup
    seed: int
    number: int
    run: RunFolder
    learned: Learned
    circuit: Circuit | None = None
    emergence: Emergence | None = None
    imposed_emergence: Emergence | None = None

    @classmethod
    def of(cls, run: RunFolder, setup: Setup, number: int) -> Studied:
        """Read a model of a finished run and its records; raise an `InputError` if a record does not fit."""
        store = CircuitStore(run)
        circuit = store.load(number) if store.path(number).exists() else None
        name = f"{setup.name}-{number}" if number else setup.name
        own, imposed = (_emergence(run, number, circuit, patterns) for patterns in ("own", "imposed"))
        return cls(name, setup, setup.seeds[number], number, run, Learned.of(run, number), circuit, own, imposed)

    @property
    def imposed(self) -> ImposedCircuit | None:
        """The circuit that the Appendix E procedure found; None if the procedure found no circuit."""
        found = self.circuit.imposed if self.circuit else None
        return found if found is not None and found.paths else None

    @property
    def decided(self) -> bool:
        """Whether a search at the paper's threshold decided if the model has a circuit, and was not given up."""
        return self.circuit is not None and self.circuit.max_loss == MAX_LOSS and not self.circuit.given_up

    @property
    def solves(self) -> bool:
        """Whether the model's loss, or its upper 95% bound if no circuit was searched for, is below the threshold."""
        if self.circuit is not None:
            return self.circuit.losses["full"] < MAX_LOSS
        return self.learned.held_out is not None and self.learned.held_out[1] < MAX_LOSS

    @property
    def working(self) -> ImposedCircuit | None:
        """The Appendix E circuit if it alone has a loss below the threshold with at least one filling, else None."""
        found = self.imposed
        works = found is not None and min(loss.mean for loss in found.losses.values()) < MAX_LOSS
        return found if works else None

    @property
    def pruned(self) -> bool:
        """Whether heads were pruned during training, which makes the circuits of the remaining heads small."""
        return self.setup.recipe.prune_every is not None

    @property
    def training(self) -> tuple[Plateau, int]:
        """The plateau of the loss, and the number of training steps."""
        if self.emergence is not None:
            return self.emergence.plateau, self.emergence.total_steps
        end = self.run.schedule.of_model(self.number).end
        return plateau(self.run.regular_metrics, self.setup.problem.chains, self.number), end

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads per layer, and hops."""
        return self.setup.recipe.layers, self.setup.recipe.heads, self.setup.problem.hops


@dataclass(frozen=True)
class StudiedModels:
    """The models of a study whose runs are finished."""

    study: ModelStudy
    models: tuple[Studied, ...]

    @property
    def compared(self) -> list[Studied]:
        """The models whose circuits are compared."""
        return [model for model in self.models if model.setup in self.study.setups]

    @property
    def followed(self) -> list[Studied]:
        """The models whose heads are followed."""
        return [model for model in self.models if model.setup in self.study.followed]


def read_models(study: ModelStudy, folder: Path) -> StudiedModels:
    """Read the models of the study whose runs are finished.

    Raises an `InputError` if a run or record is damaged or belongs to another setup.
    """
    runs = finished(study.all, folder / study.at)
    setups = [setup for setup in study.all if setup.name in runs]
    models = [Studied.of(runs[setup.name], setup, n) for setup in setups for n in range(len(setup.seeds))]
    return StudiedModels(study, tuple(models))


def _emergence(run: RunFolder, number: int, circuit: Circuit | None, patterns: Patterns) -> Emergence | None:
    """Load the emergence of a model's circuit; None if no circuit, or another circuit, was followed."""
    path = emergence_path(run.path, number, patterns=patterns)
    if circuit is None or not path.exists():
        return None
    found = Emergence.load(path)
    if (found.run, found.number, found.model) != (run.hash, number, run.model_hashes[number]):
        raise InputError(f"{path} is of another model; {UNTOUCHED}")
    return found if found.follows(circuit, patterns) else None


def do_for_every_model(
    what: str,
    function: Callable[[Path, int, Effort], object],
    study: ModelStudy,
    setups: Sequence[Setup],
    folder: Path,
    execution: Execution,
    progress: bool,
) -> None:
    """Train missing models, and call `function(run, number, effort)` for every model, each on one thread.

    The calls run in parallel processes. With a single job or worker, they run in this process, since another process
    would have to load everything again.
    """
    if not setups:
        return
    train_all(setups, folder / study.at, execution=execution, progress=progress)
    models = [(setup.name, number) for setup in setups for number in range(len(setup.seeds))]
    jobs = [(function, folder / study.at / name, number, study.effort) for name, number in models]
    workers = min(execution.workers or available_cores(), len(jobs))
    with reporting(progress, Display(what, "jobs")) as show:
        if workers > 1:
            in_processes(_on_one_thread, jobs, workers, lambda done: show(len(done), len(jobs)))
            return
        for number, job in enumerate(jobs, 1):
            _on_one_thread(*job)
            show(number, len(jobs))


def _on_one_thread(function: Callable[[Path, int, Effort], object], run: Path, number: int, effort: Effort) -> None:
    with using_threads(1):
        function(run, number, effort)


def shape_in_words(models: Sequence[Studied]) -> str:
    """Return the models as text: `D = 3, 4 layers x 8 heads, 2 seeds`."""
    layers, heads, hops = models[0].shape
    return f"D = {hops}, {counted(layers, 'layer')} x {counted(heads, 'head')}, {counted(len(models), 'seed')}"


def ranged(values: Sequence[float]) -> str:
    """Return the lowest and the highest value as text: `0.17 to 0.89`."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def losses(values: Sequence[float | None]) -> str:
    """Return losses as text: `0.012, diverged`."""
    return ", ".join("diverged" if value is None else f"{value:.4f}" for value in values)
