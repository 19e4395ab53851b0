"""Models that are studied one by one: the outcome of training, and the circuit that was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from hopscope.circuits.checks.certificate import Sense
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import StrictReading
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import circuit_path, model_hash
from hopscope.errors import InputError
from hopscope.paper.judging import BAR
from hopscope.training.run import RunFolder
from hopscope.training.run_records import hash_of
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from hopscope.words import counted


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
        import numpy as np

        result, every = run.result.models[number], run.regular_metrics
        end = run.plans.models[number].end
        late = every.after(end * 9 // 10, end).validation_loss[:, number]
        median = float(np.median(late)) if len(late) else float("nan")
        held_out = None
        if result.held_out_loss is not None and result.held_out_standard_error is not None:
            half = 1.96 * result.held_out_standard_error
            held_out = (result.held_out_loss - half, result.held_out_loss + half)
        return cls(result.final_validation_loss, median if np.isfinite(median) else None, held_out)


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
    """

    name: str
    setup: Setup
    seed: int
    number: int
    learned: Learned | None
    circuit: Circuit | None

    @property
    def strict(self) -> StrictReading | None:
        """The strict reading of its circuit; None where the search found no paths for it."""
        strict = self.circuit.strict if self.circuit else None
        return strict if strict is not None and strict.paths else None

    @property
    def certified(self) -> tuple[Sense, ...]:
        """The senses in which its circuit is certified at the paper's bar."""
        return self.circuit.certified if self.circuit and not self.at_another_bar else ()

    @property
    def solves(self) -> bool:
        """Whether the whole model's loss is below the bar; where no circuit was searched for, whether it surely is."""
        if self.circuit is not None:
            return self.circuit.losses["full"] < BAR
        return self.learned is not None and self.learned.held_out is not None and self.learned.held_out[1] < BAR

    @property
    def at_another_bar(self) -> bool:
        """Whether its circuit was searched for at another bar than the paper's."""
        return self.circuit is not None and self.circuit.bar != BAR

    @property
    def given_up(self) -> bool:
        """Whether the search for its circuit was given up; then it is not known whether there is one."""
        return self.circuit is not None and self.circuit.given_up

    @property
    def lost(self) -> bool:
        """Whether the search ended and found no circuit."""
        return self.circuit is not None and not (self.strict or self.at_another_bar or self.given_up)

    @property
    def pruned(self) -> bool:
        """Whether heads were removed while it trained, which makes the circuits of what is left small."""
        return self.setup.recipe.prune_every is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads per layer, and hops."""
        return self.setup.recipe.layers, self.setup.recipe.heads, self.setup.problem.hops


def read_models(setups: Sequence[Setup], folder: Path) -> tuple[Studied, ...]:
    """The models of these setups whose run is finished in `folder`, or for which there is a record of a circuit.

    Raises:
        InputError: a run or record is damaged, or belongs to another setup.
    """
    from hopscope.training.many import finished

    runs = finished(setups, folder)
    found = []
    for setup in setups:
        run = runs.get(setup.name)
        for number, seed in enumerate(setup.seeds):
            record = circuit_path(folder / setup.name, number)
            if run is None and not record.exists():
                continue
            name = f"{setup.name}-{number}" if number else setup.name
            learned = Learned.of(run, number) if run else None
            found.append(Studied(name, setup, seed, number, learned, read_circuit(record, setup, number, run)))
    return tuple(found)


def read_circuit(
    path: Path, setup: Setup, number: int, run: RunFolder | None, step: int | None = None
) -> Circuit | None:
    """Read the record of the circuit of one model; None where there is no file.

    Args:
        path: the path of the record.
        setup: the setup that the model was trained by.
        number: the number of the model within its run, from 0.
        run: the model's run; None where it is missing, and only the record says that it is of the setup.
        step: the step of the checkpoint at which the circuit was searched for; None for the end.

    Raises:
        InputError: the record is damaged, or belongs to another model.
    """
    if not path.exists():
        return None
    circuit = Circuit.load(path, run.record.content_hash if run else None)
    here = {**asdict(circuit.problem), **{name: getattr(circuit, name) for name in (*_OF_A_MODEL, "model")}}
    asked = {**asdict(setup.problem), **of_a_model(setup, number)}
    if run is not None:
        asked["model"] = model_hash(run, number, step)
    require_same(path, here, asked)
    if run is None:
        Circuit.load(path, hash_of(setup))  # only the seal tells that all else is alike, the recipe too
    return circuit


_OF_A_MODEL = ("seed", "number", "layers", "heads")


def of_a_model(setup: Setup, number: int) -> dict[str, Any]:
    """What every record of a model says about it: the seed, the number within its run, layers and heads."""
    return dict(zip(_OF_A_MODEL, (setup.seeds[number], number, setup.recipe.layers, setup.recipe.heads), strict=True))


def require_same(path: Path, here: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Check that a record belongs to the model that it stands beside.

    Raises:
        InputError: the record does not; the message names the first difference.
    """
    for name, value in asked.items():
        if here[name] != value:
            raise InputError(
                f"{path} is of another model: {name} is {here[name]}, and {value} of the model there; it was left "
                "untouched, move it away or make it anew"
            )


class OfModels(Protocol):
    """A study that treats models one by one."""

    @property
    def setups(self) -> tuple[Setup, ...]:
        """The setups that the models are trained by."""

    @property
    def at(self) -> str:
        """The folder of their run folders."""

    @property
    def effort(self) -> Effort:
        """The effort of the search for circuits."""


def do_for_every_model(
    what: str, function: Callable[[Path, int, Effort], None], study: OfModels, folder: Path, work: Work
) -> None:
    """Train what is not trained yet, and call `function(run, number, effort)` for every model, in parallel."""
    work.train(study.setups, folder / study.at)
    jobs = [
        (folder / study.at / setup.name, number, study.effort)
        for setup in study.setups
        for number in range(len(setup.seeds))
    ]
    work.each(what, function, jobs)


def shape_in_words(models: Sequence[Studied]) -> str:
    """The models in words: `D = 3, 4 layers x 8 heads, 2 seeds`."""
    layers, heads, hops = models[0].shape
    return f"D = {hops}, {counted(layers, 'layer')} x {counted(heads, 'head')}, {counted(len(models), 'seed')}"
