"""Models studied one by one (Sections 8 and 9): training, circuit and emergence, and verdicts over all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import CircuitStore, circuit_path
from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import Plateau, plateau
from hopscope.emergence.track import emergence_path
from hopscope.errors import InputError
from hopscope.paper.claims import Verdict
from hopscope.training.execution import Execution
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.schedule import Schedule
from hopscope.training.side_by_side import ProgressDisplay, finished, run_jobs, train_all
from hopscope.words import counted

MAX_LOSS = 0.05
"""A loss counts as low below this (Appendix E), whatever threshold a search was given."""

LEAST_MODELS = 3
"""Fewer models, or trained runs, do not carry a verdict of `reproduced`. The paper has three: A, B and C."""

RUN_GONE = "whose run is missing"
"""Said of a model whose loss after training is therefore not known."""

PRUNED = "heads were pruned while the models trained"
"""Why a claim is not run if there are no other models."""

_GIVEN_UP = "whose search was given up"
_OTHER_THRESHOLD = f"searched at another threshold than {MAX_LOSS:g}"
_UNSEARCHED = "whose circuit was not searched for"

ModelVerdict = Literal["meets", "fails", "open"]
"""What one model says about a claim; `open` where an interval lies across the threshold."""


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
        median: the median of the validation losses logged over the last tenth of training.
        held_out: the 95% interval of the held-out loss at the end.
    """

    window: float | None
    median: float | None
    held_out: tuple[float, float] | None

    @classmethod
    def of(cls, run: RunFolder, number: int) -> Learned:
        """The outcome of training one model of a finished run."""
        result, every = run.result.models[number], run.regular_metrics
        end = run.schedule.of_model(number).end
        late = every.after(end * 9 // 10, end).validation_loss[:, number]
        median = float(np.median(late)) if len(late) else float("nan")
        held_out, error = result.held_out_loss, result.held_out_standard_error
        known = None if held_out is None or error is None else (held_out - 1.96 * error, held_out + 1.96 * error)
        return cls(result.final_validation_loss, median if np.isfinite(median) else None, known)


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
    def undecided(self) -> str:
        """Why the record of its circuit decides nothing; empty if it decides something."""
        if self.circuit is None:
            return _UNSEARCHED
        if self.circuit.max_loss != MAX_LOSS:
            return _OTHER_THRESHOLD
        return _GIVEN_UP if self.circuit.given_up else ""

    @property
    def solves(self) -> bool:
        """Whether the model's loss is below the threshold; where no circuit was searched for, whether it surely is."""
        if self.circuit is not None:
            return self.circuit.losses["full"] < MAX_LOSS
        return self.learned is not None and self.learned.held_out is not None and self.learned.held_out[1] < MAX_LOSS

    @property
    def pruned(self) -> bool:
        """Whether heads were removed while it trained, which makes the circuits of what is left small."""
        return self.setup.recipe.prune_every is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads per layer, and hops."""
        return self.setup.recipe.layers, self.setup.recipe.heads, self.setup.problem.hops


@dataclass(frozen=True)
class Circuits:
    """The circuits of some models by the Appendix E procedure. Models without one count too.

    Attributes:
        found: the models with a circuit at the paper's threshold, each with that circuit.
        missing: how many models have none, though the search for it ended.
        undecided: why the record of each other model decides nothing.
    """

    found: tuple[tuple[Studied, ImposedCircuit], ...]
    missing: int
    undecided: tuple[str, ...]

    @classmethod
    def of(cls, models: Sequence[Studied]) -> Circuits:
        """The circuits of models of which the same is claimed."""
        decided = [model for model in models if not model.undecided]
        found = tuple((model, model.imposed) for model in decided if model.imposed)
        return cls(found, len(decided) - len(found), tuple(model.undecided for model in models if model.undecided))

    @property
    def decided(self) -> int:
        """How many models are known to have a circuit or to have none."""
        return len(self.found) + self.missing

    @property
    def models(self) -> int:
        """How many models there are in all."""
        return self.decided + len(self.undecided)

    @property
    def nothing(self) -> str:
        """Why these models decide nothing, where no search ended or was given up; else empty."""
        return "" if self.decided or _GIVEN_UP in self.undecided else by_reason(self.undecided)

    @property
    def aside(self) -> str:
        """The models without a circuit that is known, in words, to be added to the numbers of the others."""
        lost = [f"no circuit in {counted(self.missing, 'model')}"] if self.missing else []
        return "".join(f"; {words}" for words in (*lost, by_reason(self.undecided)) if words)


@dataclass(frozen=True)
class FollowedModel:
    """One model followed through training.

    Attributes:
        model: the model, with its circuit at the end.
        final: how that circuit came to be; None where this is not known.
        first: the same for the circuit found at the checkpoint where all hops had just been learned.
        metrics: the metrics of its run; None where the run itself is missing.
    """

    model: Studied
    final: Emergence | None
    first: Emergence | None
    metrics: Metrics | None

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


def _circuit(folder: Path, setup: Setup, number: int, run: RunFolder | None, step: int | None = None) -> Circuit | None:
    """The record of a model's circuit, at the end or at a step; None where there is no file. The run may be missing."""
    path = circuit_path(folder, number, step)
    if not path.exists():
        return None
    return CircuitStore(run).load(number, step) if run is not None else Circuit.load(path, setup.content_hash)


def all_learned_at(run: RunFolder, number: int) -> int | None:
    """The first checkpoint at which all hops have been learned; None if there is none, or if it is the last."""
    learned = [math.inf if step is None else step for step in run.regular_metrics.first_below()[number]]
    return next((step for step in sorted(run.checkpoints)[:-1] if step >= max(learned)), None)


def read_followed(model: Studied, folder: Path) -> FollowedModel:
    """How the circuits of a model of a run in `folder` came to be; `InputError` if a record is not of the model."""
    path, number, run, first = folder / model.setup.name, model.number, model.run, None
    final = _history(emergence_path(path, number), model)
    if run is not None and (step := all_learned_at(run, number)) is not None:
        then = replace(model, circuit=_circuit(path, model.setup, number, run, step))
        first = _history(emergence_path(path, number, step), then)
    return FollowedModel(model, final, first, run.metrics if run else None)


def _history(path: Path, model: Studied) -> Emergence | None:
    """How a model's circuit came to be; None where it was not followed, or where another circuit of it was."""
    if model.circuit is None or not path.exists():
        return None
    history = Emergence.load(path)
    of = model.run.model_hashes[model.number] if model.run is not None else model.circuit.model
    if (history.run, history.number, history.model) != (model.setup.content_hash, model.number, of):
        raise InputError(f"{path} is of another model; it was left untouched, move it away or make it again")
    return history if history.follows(model.circuit) else None


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


def below(interval: tuple[float, float], threshold: float) -> ModelVerdict:
    """Whether a loss with this interval lies below the threshold."""
    low, high = interval
    return "meets" if high < threshold else "fails" if low >= threshold else "open"


def every_model(
    outcomes: Sequence[ModelVerdict],
    least: int = LEAST_MODELS,
    open_ones: str = "with an interval across the threshold",
    unjudged: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """The verdict on a claim that all models must meet, and why it is inconclusive where it is.

    One model that fails refutes it, however few there are. `open_ones` says what is wrong with models that are open;
    `unjudged` says for every further model why it is not judged: `whose search was given up`.
    """
    if not outcomes and not unjudged:
        return "not run", ""
    if "fails" in outcomes:
        return "not reproduced", ""
    if "open" in outcomes or unjudged:
        return "inconclusive", by_reason([open_ones] * outcomes.count("open") + list(unjudged))
    if len(outcomes) < least:
        return "inconclusive", f"too few models: {len(outcomes)}, and the rule asks for {least}"
    return "reproduced", ""


def by_reason(reasons: Sequence[str]) -> str:
    """`1 model searched at another threshold, 2 models whose search was given up`: how many models with each."""
    return ", ".join(f"{counted(number, 'model')} {reason}" for reason, number in Counter(reasons).items())


def ranged(values: Sequence[float]) -> str:
    """Lowest and highest value in words: `0.17 to 0.89`."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def losses(values: Sequence[float | None]) -> str:
    """Losses in words: `0.012, diverged`."""
    return ", ".join("diverged" if value is None else f"{value:.4f}" for value in values)


def spans(intervals: Sequence[tuple[float, float]]) -> str:
    """Intervals in words: `0.007 to 0.009, 0.01 to 0.02`."""
    return ", ".join(f"{low:.3g} to {high:.3g}" for low, high in intervals)
