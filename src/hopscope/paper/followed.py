"""Models whose heads are followed through training: what stands in their folders, and is of them (Section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.circuits.record import Circuit
from hopscope.emergence.history import Emergence
from hopscope.emergence.plateau import Plateau, plateau
from hopscope.paper.models import Studied, of_a_model, read_circuit, require_same
from hopscope.records import content_hash
from hopscope.training.metrics import Metrics
from hopscope.training.plan import Plan
from hopscope.training.run import RunFolder
from hopscope.training.run_records import hash_of


@dataclass(frozen=True)
class FollowedModel:
    """One model followed through training.

    Attributes:
        model: with its circuit at the end.
        final: how that came to be; None where there is none.
        first: the same of the circuit found at the checkpoint where all hops had just been learned.
        metrics: of its run; None where the run itself is not there.
        first_certified: whether the circuit found there is certified in the natural sense, at the paper's bar.
    """

    model: Studied
    final: Emergence | None
    first: Emergence | None
    metrics: Metrics | None
    first_certified: bool = False

    @property
    def final_certified(self) -> bool:
        """The same of the circuit at the end."""
        return "natural" in self.model.certified

    @property
    def training(self) -> tuple[Plateau, int] | None:
        """Plateau and steps in all; of a run that is not there, as what was followed tells them, or None."""
        if self.metrics is not None:
            setup, number = self.model.setup, self.model.number
            end = min(Plan.of(setup.recipe, self.metrics, number).end, int(self.metrics.steps[-1]))
            return plateau(self.metrics, setup.problem.chains, number), end
        return (self.final.plateau, self.final.total_steps) if self.final else None


def all_learned_at(run: RunFolder, number: int) -> int | None:
    """The first checkpoint at which all hops have been learned; None if there is none, or it is the last."""
    return _first_from(run.metrics.first_below()[number], run.checkpoints)


def _first_from(learned: Sequence[int | None], checkpoints: Iterable[int]) -> int | None:
    steps = [step for step in learned if step is not None]
    if len(steps) < len(learned):
        return None
    return next((step for step in sorted(checkpoints)[:-1] if step >= max(steps)), None)


def read_followed(model: Studied, folder: Path, run: RunFolder | None) -> FollowedModel:
    """One model followed. The circuit that learned the task is the one of the checkpoint at which all hops had been.

    Where the checkpoints are gone, they are those that the circuit at the end was followed through.

    Args:
        model: with its circuit at the end.
        folder: of the run folders.
        run: that it is of; None where that is not there.

    Raises:
        InputError: a record is damaged, or of another model.
    """
    from hopscope.circuits.kept import circuit_path
    from hopscope.emergence.of_run import emergence_path

    place, number = folder / model.setup.name, model.number
    final = _history(emergence_path(place, number), model, model.circuit, run)
    if run is not None and run.checkpoints:
        step = all_learned_at(run, number)
    else:
        step = _first_from(final.plateau.learned, final.steps) if final else None
    first = then = None
    if step is not None:
        path = circuit_path(place, number, step)
        then = replace(model, circuit=read_circuit(path, model.setup, number, run, step))
        if run is None and model.circuit and then.circuit:
            at = content_hash([model.circuit.model, step])
            require_same(path, {"model": then.circuit.model}, {"model": at})
        first = _history(emergence_path(place, number, step), then, model.circuit, run)
    certified = then is not None and "natural" in then.certified
    return FollowedModel(model, final, first, run.metrics if run else None, certified)


def _history(path: Path, model: Studied, end: Circuit | None, run: RunFolder | None) -> Emergence | None:
    """How a model's circuit came to be; None where nobody followed it, or one of other paths before it was searched
    anew. `end` is the circuit of the model as it is when finished, which a history is of whatever circuit it follows.

    Raises:
        InputError: the record is damaged, or of another model.
    """
    if model.circuit is None or not path.exists():
        return None
    history, problem = Emergence.load(path), model.setup.problem
    asked = of_a_model(model.setup, model.number) | {"hops": problem.hops, "chains": problem.chains}
    if run is not None:
        asked["model"] = run.model_hashes[model.number]
    elif end is not None:
        asked["model"] = end.model
    asked["run"] = run.record.content_hash if run else hash_of(model.setup)
    require_same(path, {name: getattr(history, name) for name in asked}, asked)
    return history if history.follows(model.circuit) else None
