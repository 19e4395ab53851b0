"""The emergence of a run's circuit, kept beside it.

emergence.json         the record of model 0; for model N, `emergence-N.json`
emergence/step-NNNNNN.json  that of the circuit model 0 had at that checkpoint; for model N, `step-NNNNNN-N.json`
emergence-maps.json    role maps of model 0 over time; for model N, `emergence-maps-N.json`
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from pathlib import Path

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.store import check_model, circuit_path, require_of, search_for
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import Emergence
from hopscope.emergence.track import track
from hopscope.errors import InputError
from hopscope.training.run import RunFolder

_ROUNDING = 1e-3
"""By how much a circuit's losses may differ between machines, as a share."""


def emergence_of_run(
    run: RunFolder,
    number: int = 0,
    settings: EmergenceConfig | None = None,
    *,
    step: int | None = None,
    watch: Callable[[int, int], None] | None = None,
    overwrite: bool = False,
) -> Emergence:
    """How the circuit of a model of a run emerged, kept in the run's folder.

    An existing record is returned as it is if it was made of the same circuit and settings, of all checkpoints that
    are there (some of its own may be gone since), and all could be used. Role maps that are lost are made again by
    `overwrite` alone.

    Args:
        run: the run, finished or still training.
        number: the model's number within the run, from 0.
        settings: how the circuit is followed; None for the paper's 32 sequences, or more where they were measured.
        step: the step of the checkpoint whose circuit is followed; None for the last.
        watch: called with the step of each checkpoint done, and that of the last.
        overwrite: measure again even if there is a record.

    Raises:
        InputError: there is no such model, no circuit, a circuit of another model, or too few checkpoints, the run is
            not of chains, or a record of the same circuit knows more than one that is made now would.
    """
    if run.problem.graph != "chain":
        raise InputError(f"emergence follows circuits of chains, and {run.path} is of {run.problem.graph}")
    wanted = settings or EmergenceConfig()
    check_model(run, number)
    of_circuit = circuit_path(run.path, number, step)
    if not of_circuit.exists():
        raise InputError(
            f"{of_circuit} does not exist, and emergence follows a known circuit; find it first "
            f"with `{search_for(run, number, step)}`"
        )
    circuit = Circuit.load(of_circuit, run.record.content_hash)
    require_of(of_circuit, circuit, run, number, step)
    if not circuit.found:
        raise InputError(
            f"model {number} of {run.path} has no circuit (`{search_for(run, number, step)} --show` says why), so "
            "there is nothing to follow"
        )
    path, maps_path = emergence_path(run.path, number, step), maps_over_time_path(run.path, number)
    if path.exists() and not overwrite:
        known = Emergence.load(path)
        if _of_the_same(known, run, circuit):
            alike = (known.data_seed, known.ablation) == (wanted.seed, wanted.ablation)
            more = settings is None and known.sequences >= wanted.sequences
            if alike and (more or known.sequences == wanted.sequences):
                return known
            _require_no_less(path, known, run, wanted)
    emergence, maps = track(run, circuit, wanted, watch)
    maps.save(maps_path, run.record.content_hash)
    emergence.save(path)
    return emergence


def emergence_path(folder: Path, number: int, step: int | None = None) -> Path:
    """The path at which the emergence of a model is kept."""
    model = f"-{number}" if number else ""
    return folder / (f"emergence{model}.json" if step is None else f"emergence/step-{step:06d}{model}.json")


def maps_over_time_path(folder: Path, number: int) -> Path:
    """The path at which a model's role maps over time are kept."""
    return folder / (f"emergence-maps-{number}.json" if number else "emergence-maps.json")


def _of_the_same(known: Emergence, run: RunFolder, circuit: Circuit) -> bool:
    """Whether a record is of a circuit, at all checkpoints that are there."""
    return (
        known.model == run.model_hashes[circuit.number]
        and set(known.steps) >= set(run.checkpoints)
        and not known.troubles
        and known.follows(circuit)
        and known.circuit.keys() == circuit.losses.keys()
        and all(isclose(known.circuit[name], loss, rel_tol=_ROUNDING) for name, loss in circuit.losses.items())
    )


def _require_no_less(path: Path, known: Emergence, run: RunFolder, settings: EmergenceConfig) -> None:
    """Check that a record is not replaced by one of fewer checkpoints or sequences.

    Raises:
        InputError: it would be.
    """
    less = [
        f"{have} {what}, not {now}"
        for what, have, now in (
            ("checkpoints", len(known.steps), len(run.checkpoints)),
            ("sequences", known.sequences, settings.sequences),
        )
        if have > now
    ]
    if less:
        raise InputError(
            f"{path} is of {' and '.join(less)}; `hopscope emergence --overwrite` (in Python overwrite=True) "
            "measures again and replaces it"
        )
