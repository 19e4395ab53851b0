"""Circuits stored beside their models: their paths on disk, whose they are, and which searches they spare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.circuits.find import Origin, asked_of, search_circuit
from hopscope.circuits.resume import SILENT, Journal, SavedSearch, SearchProgress
from hopscope.circuits.search.config import Effort, SearchConfig
from hopscope.errors import InputError
from hopscope.records import content_hash
from hopscope.training.data import held_out
from hopscope.training.run import RunFolder


def circuit_path(folder: Path, number: int = 0, step: int | None = None) -> Path:
    """The path of the circuit of a model of a run: `circuit.json` (`circuit-N.json` for model N > 0).

    For the model as it was at a checkpoint it is `circuits/step-NNNNNN.json` (`circuits/step-NNNNNN-N.json`).
    """
    model = f"-{number}" if number else ""
    return folder / (f"circuit{model}.json" if step is None else f"circuits/step-{step:06d}{model}.json")


@dataclass(frozen=True)
class CircuitStore:
    """The circuits of the models of a run, finished or still training, in the run folder."""

    run: RunFolder

    def path(self, number: int = 0, step: int | None = None) -> Path:
        """The path of the circuit of a model of the run, see `circuit_path`."""
        count = len(self.run.seeds)
        if not 0 <= number < count:
            raise InputError(f"model must be from 0 to {count - 1} (the run has {count}), got {number}")
        return circuit_path(self.run.path, number, step)

    def command(self, number: int, step: int | None) -> str:
        """The command that finds the circuit of a model."""
        which = (f" --model {number}" if number else "") + (f" --checkpoint {step}" if step is not None else "")
        return f"hopscope circuit {self.run.path}{which}"

    def model_hash(self, number: int, step: int | None = None) -> str:
        """The hash that names a model: as it is when finished, or as it was at a step before the end."""
        finished = self.run.model_hashes[number]
        return finished if step is None or step == self.run.schedule.end else content_hash([finished, step])

    def origin(self, number: int, step: int | None = None) -> Origin:
        """The origin of a model, as it was at a step, or is."""
        at = max(self.run.checkpoints, default=0) if step is None else step
        return Origin(self.model_hash(number, at), self.run.seeds[number], number)

    def holds(self, circuit: Circuit) -> bool:
        """Whether a circuit was found in a model of this run, finished or as it was at one of its checkpoints."""
        number = circuit.number
        if number >= len(self.run.seeds) or circuit.seed != self.run.seeds[number]:
            return False
        return circuit.model in {self.model_hash(number, step) for step in (None, *self.run.checkpoints)}

    def is_of(self, circuit: Circuit, number: int, step: int | None = None) -> bool:
        """Whether a circuit is that of a model: at a checkpoint, or at the end if no step is given.

        Without a step, while the run goes on, a circuit of any checkpoint so far will do.
        """
        if circuit.number != number or not self.holds(circuit):
            return False
        return (step is None and not self.run.finished) or circuit.model == self.model_hash(number, step)

    def load(self, number: int = 0, step: int | None = None) -> Circuit:
        """The stored circuit of a model."""
        path = self.path(number, step)
        if not path.exists():
            self.run.find_checkpoint(step)
            raise InputError(f"{path} does not exist; `{self.command(number, step)}` makes it")
        circuit = Circuit.load(path, self.run.record.content_hash)
        if not self.is_of(circuit, number, step):
            earlier = circuit.number == number and self.holds(circuit)
            whose = "that model as it was before" if earlier else "another model"
            raise InputError(
                f"{path} holds the circuit of {whose}; find this one's with `{self.command(number, step)} --overwrite`"
            )
        return circuit

    def find(
        self,
        number: int = 0,
        step: int | None = None,
        *,
        effort: Effort | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
        proof: CertificateConfig | None = None,
        progress: SearchProgress = SILENT,
        overwrite: bool = False,
    ) -> Circuit:
        """The circuit of a model, stored beside the run; see `stored_circuit` for when it is searched for.

        Raises:
            InputError: no such model or checkpoint, a run without any checkpoint, a model that has diverged, or a
                record of a certified circuit that another search found.
        """
        described = any(one is not None for one in (effort, max_loss, seed, proof))
        config = SearchConfig.of("thorough" if effort is None else effort, max_loss, seed)
        proof, run, path = CertificateConfig.of(proof), self.run, self.path(number, step)
        if step is None and run.finished and run.result.models[number].diverged:
            raise InputError(f"model {number} of {run.path} has diverged, so that there is no circuit to find")
        origin = self.origin(number, step)

        def search(journal: Journal) -> Circuit:
            batch = held_out(run.problem, config.confirming, config.seed, "circuit search")
            transformer = single(run.transformer(step), number)
            evaluator = VectorEvaluator(transformer, run.problem, batch, run.recipe.initial)
            return search_circuit(evaluator, config, origin, proof, journal)

        asked = {"model": origin.model, "max_loss": config.max_loss, **asked_of(config), "proof": proof}
        run_hash, how = run.record.content_hash, {"described": described, "overwrite": overwrite}
        return stored_circuit(path, asked, search, run=run_hash, progress=progress, **how)


def stored_circuit(
    path: Path,
    asked: Mapping[str, Any],
    search: Callable[[Journal], Circuit],
    *,
    described: bool,
    run: str = "",
    progress: SearchProgress = SILENT,
    overwrite: bool = False,
) -> Circuit:
    """The circuit in `path`, if it is what is asked for; else one is searched for and stored there.

    `asked` is what the record must say: its model, its `max_loss`, and fields of its search. A certified circuit of
    the same model is returned where no other search is `described`, and replaced by `overwrite` alone. Any other record
    is replaced. A search that was interrupted goes on where it was.

    Raises:
        InputError: the record is damaged, or of a certified circuit that is not asked for.
    """
    saved = SavedSearch.beside(path, asked, run)
    if path.exists() and not overwrite:
        circuit = Circuit.load(path, run or None)
        other = [name for name in asked if _said(circuit, name) != asked[name]]
        if not other:
            saved.forget()
            return circuit
        if circuit.certified and "model" not in other and not described:
            return circuit
        if circuit.certified:
            why = "; ".join(f"{name} {_said(circuit, name)}, not {asked[name]}" for name in other[:3])
            raise InputError(
                f"{path} holds a certified circuit, found with {why}; pass --overwrite (in Python overwrite=True) to "
                "search again and replace it, or move it away"
            )
    path.parent.mkdir(exist_ok=True)
    circuit = search(Journal(progress, {} if overwrite else saved.memory(), saved.remember))
    circuit.save(path, run, overwrite=overwrite)
    saved.forget()
    return circuit


def _said(circuit: Circuit, name: str) -> Any:
    """What a record says of its model, its threshold or its search."""
    return getattr(circuit if name in ("model", "max_loss") else circuit.search, name)
