"""Models whose heads are followed through training: the records in their folders that belong to them (Section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.circuits.circuit import Circuit
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
        model: the model, with its circuit at the end.
        final: how that circuit came to be; None where this is not known.
        first: the same for the circuit found at the checkpoint where all hops had just been learned.
        metrics: the metrics of its run; None where the run itself is missing.
        first_certified: whether the circuit found there is certified in the natural sense, at the paper's bar.
    """

    model: Studied
    final: Emergence | None
    first: Emergence | None
    metrics: Metrics | None
    first_certified: bool = False

    @property
    def final_certified(self) -> bool:
        """Whether the circuit at the end is certified in the natural sense, at the paper's bar."""
        return "natural" in self.model.certified

    @property
    def training(self) -> tuple[Plateau, int] | None:
        """Plateau and total number of steps; where the run is missing, as the followed circuit tells them, or None."""
        if self.metrics is not None:
            setup, number = self.model.setup, self.model.number
            end = min(Plan.of(setup.recipe, self.metrics, number).end, int(self.metrics.steps[-1]))
            regular = self.metrics.every(setup.recipe.log_every)
            return plateau(regular, setup.problem.chains, number), end
        return (self.final.plateau, self.final.total_steps) if self.final else None


def all_learned_at(run: RunFolder, number: int) -> int | None:
    """The first checkpoint at which all hops have been learned; None if there is none, or if it is the last."""
    return _first_from(run.regular_metrics.first_below()[number], run.checkpoints)


def _first_from(learned: Sequence[int | None], checkpoints: Iterable[int]) -> int | None:
    steps = [step for step in learned if step is not None]
    if len(steps) < len(learned):
        return None
    return next((step for step in sorted(checkpoints)[:-1] if step >= max(steps)), None)


def read_followed(model: Studied, folder: Path, run: RunFolder | None) -> FollowedModel:
    """Read one followed model. Its first circuit is that of the checkpoint at which all hops had just been learned.

    Where the checkpoints are gone, those through which the circuit at the end was followed take their place.

    Args:
        model: the model, with its circuit at the end.
        folder: the folder of the run folders.
        run: the run of the model; None where it is missing.

    Raises:
        InputError: a record is damaged, or belongs to another model.
    """
    from hopscope.circuits.store import circuit_path
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
    """How a model's circuit came to be; None where nobody followed it, or where the record follows other paths, from
    before the circuit was searched for anew. `end` is the circuit of the finished model, to which the record must
    belong whatever circuit it follows.

    Raises:
        InputError: the record is damaged, or belongs to another model.
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
