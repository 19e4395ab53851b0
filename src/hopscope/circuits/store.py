"""The circuits of a run, stored in its folder: their files, the model that each belongs to, and resumable searches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hopscope.checks import check_count
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.find import Origin
from hopscope.circuits.resume import SAVED, SavedSearch, Search, SearchProgress, run_search
from hopscope.errors import InputError
from hopscope.records import content_hash, plain
from hopscope.training.run import RunFolder


def circuit_path(folder: Path, number: int = 0, step: int | None = None) -> Path:
    """Return the path of a model's circuit file in a run folder: `circuit.json`, or `circuit-N.json` for model N > 0.

    For the model at a checkpoint, it is `circuits/step-NNNNNN.json`, or `circuits/step-NNNNNN-N.json` for model N > 0.
    """
    model = f"-{number}" if number else ""
    return folder / (f"circuit{model}.json" if step is None else f"circuits/step-{step:06d}{model}.json")


@dataclass(frozen=True)
class CircuitStore:
    """The circuits of the models of a run, finished or still training, in the run folder."""

    run: RunFolder

    def path(self, number: int = 0, step: int | None = None) -> Path:
        """Return the path of a model's circuit file; see `circuit_path`."""
        check_count(f"the model of {self.run.path}", number, 0, len(self.run.seeds) - 1)
        return circuit_path(self.run.path, number, step)

    def command(self, number: int, step: int | None) -> str:
        """Return the command line that finds the circuit of a model."""
        which = (f" --model {number}" if number else "") + (f" --checkpoint {step}" if step is not None else "")
        return f"hopscope circuit {self.run.path}{which}"

    def origin(self, number: int, step: int | None = None) -> Origin:
        """Return the origin of a model at a step or, by default, at the last checkpoint."""
        at = max(self.run.checkpoints, default=0) if step is None else step
        return Origin(self._hash(number, at), self.run.seeds[number], number)

    def is_of(self, circuit: Circuit, number: int, step: int | None = None) -> bool:
        """Whether a circuit belongs to a model at a checkpoint or, if no step is given, to the finished model.

        If no step is given and the run is not finished, a circuit of any checkpoint is accepted.
        """
        steps = (step,) if step is not None or self.run.finished else (None, *self.run.checkpoints)
        return circuit.number == number and circuit.model in [self._hash(number, at) for at in steps]

    def load(self, number: int = 0, step: int | None = None) -> Circuit:
        """Load the stored circuit of a model."""
        path = self.path(number, step)
        if not path.exists():
            self.run.find_checkpoint(step)
            raise InputError(f"{path} does not exist; `{self.command(number, step)}` makes it")
        circuit = Circuit.load(path, self.run.hash)
        if not self.is_of(circuit, number, step):
            raise InputError(
                f"{path} holds the circuit of another model, or of this model at another step; search for the "
                f"right one with `{self.command(number, step)} --overwrite`"
            )
        return circuit

    def _hash(self, number: int, step: int | None = None) -> str:
        """Return the hash that identifies a model, either the finished model or the model at an earlier step."""
        finished = self.run.model_hashes[number]
        return finished if step is None or step == self.run.schedule.end else content_hash([finished, step])


def find_stored(
    path: Path,
    search: Search[Circuit],
    model: str,
    wanted: SearchRecord,
    max_loss: float | None = None,
    *,
    run: str = "",
    progress: SearchProgress | bool = False,
    overwrite: bool = False,
) -> Circuit:
    """Return the circuit stored in `path` if its model and settings match; otherwise search for it and store it there.

    An interrupted search with the same settings resumes. A certified circuit with other settings is replaced only if
    `overwrite` is given; any other record is replaced in any case. `model` and `run` are hashes; `run` is empty if the
    model belongs to no run, and `max_loss` is None if it depends on the model.

    Raises:
        InputError: the record or the interrupted search is damaged or belongs to another run, or the record is a
            certified circuit with other settings.
    """
    names = ("effort", "seed", "faithfulness", "proof", "precision", "prompts")
    settings = {name: plain(getattr(wanted, name)) for name in names}
    settings |= {"model": model} | ({} if max_loss is None else {"max_loss": max_loss})
    file = path.with_name(f".{path.stem}-search.json")
    if path.exists() and not overwrite:
        circuit = Circuit.load(path, run or None)
        known = {"model": circuit.model, "max_loss": circuit.max_loss} | vars(circuit.search)
        changed = [name for name, value in settings.items() if plain(known[name]) != value]
        if not changed:
            file.unlink(missing_ok=True)
            return circuit
        if circuit.certified:
            other = "; ".join(f"{name} {plain(known[name])}, not {settings[name]}" for name in changed)
            raise InputError(
                f"{path} holds a certified circuit, found with {other}; pass --overwrite (in Python overwrite=True) to "
                "search again and replace it, or move it away"
            )
    saved = SAVED.read(file, run or None) if file.exists() and not overwrite else SavedSearch()
    if saved.settings != settings:
        saved = SavedSearch(settings)
    path.parent.mkdir(exist_ok=True, parents=True)
    circuit = run_search(search, progress, saved, lambda saved: SAVED.write(file, saved, run))
    circuit.save(path, run, overwrite=overwrite)
    file.unlink(missing_ok=True)
    return circuit
