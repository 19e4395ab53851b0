"""Circuits stored beside their models: their paths on disk, whether one belongs there, and interrupted searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hopscope.checks import check_seed
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.resume import SILENT, Interrupted, Journal, SearchProgress
from hopscope.errors import InputError
from hopscope.records import content_hash

if TYPE_CHECKING:
    from hopscope.training.run import RunFolder

IfCertified = Literal["replace", "refuse", "return"]
"""What is done with a certified circuit that is there already, see `kept_circuit`."""

_HOW_FAITHFUL = ("max_loss", "faithfulness")
"""The settings that say how much a circuit may lose."""


def circuit_path(folder: Path, number: int = 0, step: int | None = None) -> Path:
    """Where the circuit of a model of a run is kept.

    `circuit.json` (`circuit-N.json` for model N > 0) for the model as it is; for the model as it was at a checkpoint,
    `circuits/step-NNNNNN.json` (`circuits/step-NNNNNN-N.json`).
    """
    model = f"-{number}" if number else ""
    return folder / (f"circuit{model}.json" if step is None else f"circuits/step-{step:06d}{model}.json")


def check_model(run: RunFolder, number: int) -> None:
    """Check that a run has a model of that number.

    Raises:
        InputError: it has not.
    """
    if not 0 <= number < len(run.seeds):
        raise InputError(f"model must be from 0 to {len(run.seeds) - 1} (the run has {len(run.seeds)}), got {number}")


def search_for(run: RunFolder, number: int, step: int | None) -> str:
    """The command that finds the circuit of a model of a run."""
    which = (f" --model {number}" if number else "") + (f" --checkpoint {step}" if step is not None else "")
    return f"hopscope circuit {run.path}{which}"


def model_hash(run: RunFolder, number: int, step: int | None = None) -> str:
    """The hash that names a model of a run: as it is when finished, or as it was at a step before the end."""
    finished = run.model_hashes[number]
    return finished if step is None or step == run.plans.end else content_hash([finished, step])


def is_of(circuit: Circuit, run: RunFolder, number: int, step: int | None = None) -> bool:
    """Whether a circuit is that of a model of a run: at a checkpoint, or at the end if no step is given.

    Without a step, while the run goes on, a circuit of any checkpoint so far will do.
    """
    if circuit.number != number or circuit.seed != run.seeds[number]:
        return False
    if step is None and not run.finished:
        return belongs_to(circuit, run)
    return circuit.model == model_hash(run, number, step)


def require_of(path: Path, circuit: Circuit, run: RunFolder, number: int, step: int | None = None) -> None:
    """Check that the circuit in `path` is that of a model of a run, in the sense of `is_of`.

    Raises:
        InputError: the circuit is of another model, or of this one at another time.
    """
    if not is_of(circuit, run, number, step):
        earlier = circuit.number == number and belongs_to(circuit, run)
        whose = "that model as it was before" if earlier else "another model"
        raise InputError(
            f"{path} holds the circuit of {whose}; find this one's with `{search_for(run, number, step)} --overwrite`"
        )


def belongs_to(circuit: Circuit, run: RunFolder) -> bool:
    """Whether a circuit was found in a model of this run, finished or as it was at one of its checkpoints."""
    number = circuit.number
    if number >= len(run.seeds) or circuit.seed != run.seeds[number]:
        return False
    finished = run.model_hashes[number]
    return circuit.model in {finished, *(content_hash([finished, step]) for step in run.checkpoints)}


def if_certified(*described: Any) -> IfCertified:
    """A certified circuit is returned where nothing describes another search, and not replaced where something does."""
    return "return" if all(one is None for one in described) else "refuse"


def kept_circuit(
    path: Path,
    wanted: dict[str, Any],
    find: Callable[[Journal], Circuit],
    *,
    run: str = "",
    progress: SearchProgress = SILENT,
    overwrite: bool = False,
    certified: IfCertified = "replace",
) -> Circuit:
    """The circuit in `path`, if it is what is asked for; else one is searched for and kept there.

    A search that was interrupted goes on where it was. A record of another search is replaced, if `certified` does not
    say otherwise, and so is one of another model that is not certified.

    Args:
        path: where the record is kept.
        wanted: what the record must say of its model, its search and its proof.
        find: searches for the circuit.
        run: content hash of the run that the model is from; empty if it is from none.
        progress: called with what is being done, how many stages are finished, and how many there are.
        overwrite: search again even if there is a record.
        certified: what is done with a certified circuit of the same model that another search found: it is replaced,
            refused to be, or returned as it is.

    Raises:
        InputError: `wanted["seed"]` is no seed, the record is damaged, or it is of a certified circuit of another
            model, or of this model at another bar or faithfulness, or not to be replaced.
    """
    check_seed(wanted["seed"])  # here too, since a record of seed 1 would match True
    search = Interrupted.beside(path, wanted, run)
    if path.exists() and not overwrite:
        circuit = Circuit.load(path, run or None)
        here = _says(circuit)
        if wanted.items() <= here.items():
            search.forget()
            return circuit
        if circuit.certified and circuit.model != wanted["model"]:
            raise InputError(
                f"{path} holds the certified circuit of another model, or of this one as it was before; move it away, "
                "or pass --overwrite (in Python "
                "overwrite=True) to search in this one and replace it"
            )
        if circuit.certified and certified == "return":
            return circuit
        if circuit.certified:
            _require_as_faithful(path, here, wanted)
        if circuit.certified and certified == "refuse":
            raise _found_otherwise(path, here, wanted)
    path.parent.mkdir(exist_ok=True)
    circuit = find(Journal(progress, {} if overwrite else search.memory(), search.remember))
    circuit.save(path, run, overwrite=overwrite)
    search.forget()
    return circuit


def _says(circuit: Circuit) -> dict[str, Any]:
    """What a record says of how it was made."""
    return circuit.search | {"model": circuit.model, "max_loss": circuit.bar}


def _require_as_faithful(path: Path, here: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Check that a certified circuit was held to the bar asked for, so that no circuit at another bar replaces it."""
    for name in _HOW_FAITHFUL:
        if name in wanted and here.get(name) != wanted[name]:
            raise InputError(
                f"{path} holds a circuit certified at {name} {here.get(name):g}, not "
                f"{wanted[name]:g}; pass --overwrite (in Python overwrite=True) to search again and replace it"
            )


def _found_otherwise(path: Path, here: dict[str, Any], wanted: dict[str, Any]) -> InputError:
    """What is said of a certified circuit that is not what is asked for, and is not to be replaced."""
    other = [f"{name} {here.get(name)}, not {value}" for name, value in wanted.items() if here.get(name) != value]
    return InputError(
        f"{path} holds a certified circuit, found with {'; '.join(other[:3])}; pass --overwrite (in Python "
        "overwrite=True) to search again and replace it"
    )
