"""Small made-up results in the form that studies give to judges, figures and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hopscope.circuits.circuit_parts import Loss, StrictPath, StrictReading
from hopscope.paper.groups import Group
from hopscope.paper.models import Learned, ModelStudy, Studied
from hopscope.paper.section_8 import CircuitResult
from hopscope.problem.paths import NamedPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe, Setup

Losses = Sequence[Sequence[float | None]]


def group(
    layers: int,
    *,
    curriculum: bool = True,
    hops: int = 3,
    losses: Losses | None = None,
    crossings: Sequence[Sequence[int | None]] | None = None,
    chains: int = 4,
    seeds: Sequence[int] | None = None,
) -> Group:
    """A group; `losses` are by seed and hop asked for, None for every hop of a diverged seed."""
    width = hops if curriculum else 1
    rows = losses or [[0.1 * (hop + 1) + extra for hop in range(width)] for extra in (0.0, 0.02)]
    final = tuple(None if None in row else sum(row) / len(row) for row in rows)  # type: ignore[arg-type]
    return Group(
        hops=hops,
        chains=chains,
        curriculum=curriculum,
        layers=layers,
        seeds=tuple(seeds or range(len(rows))),
        final_validation_loss=final,
        final_partial_losses=tuple(map(tuple, rows)),
        held_out_loss=final,
        held_out_standard_error=tuple(None if loss is None else 0.001 for loss in final),
        crossings=tuple(map(tuple, crossings or [[None] * width for _ in rows])),
        run=f"sweep/{'ic' if curriculum else 'non-ic'}-layers-{layers}",
    )


def metrics(steps: int = 5) -> Metrics:
    """Two seeds, two hops: hop 1 falls in a line, hop 2 stays."""
    at = np.array([10 * (step + 1) for step in range(steps)])
    falling = 1 - at / 50
    partial = np.array([[falling - seed / 10, np.full(steps, 0.75)] for seed in (0, 1)]).transpose(2, 0, 1)
    mean = partial.mean(axis=2)
    return Metrics((7, 8), (1, 2), at, mean, mean, partial, partial, np.full_like(mean, np.nan))


TIES: tuple[NamedPath, ...] = ((1, 1, ">x1", "x0>"), (1, 1, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
SERIAL: tuple[NamedPath, ...] = (*TIES, (4, 1, "x0?", ">x1"), (7, 1, "x0?", ">x2"), (11, 1, "x0?", ">x3"))
DOUBLING: tuple[NamedPath, ...] = (*TIES, (4, 1, ">x1", ">x2"), (7, 1, "x0?", ">x1"), (11, 1, ">x2", ">x3"))
BACKWARD: tuple[NamedPath, ...] = (*TIES, (4, 1, "x1>", ">x1"), (7, 1, ">x1", ">x3"), (11, 1, "x0?", "x2>"))


def loss(mse: float, half: float = 0.001) -> Loss:
    """A loss with a narrow interval."""
    return Loss(mse, (mse - half, mse + half))


def strict(paths: Sequence[NamedPath] = SERIAL, without: float = 0.4, **changes: Any) -> StrictReading:
    """A strict reading in which every claim on circuits holds, but for the number of models."""
    made = StrictReading(
        paths=tuple(StrictPath(*path, loss(without)) for path in paths),
        zero=loss(0.01),
        uniform=loss(0.02),
        identity=loss(0.03),
        fill="zero",
        first_layer_uniform=loss(0.08),
        fewest_heads=tuple(sorted({path[:2] for path in paths})),
        fewest_heads_loss=loss(0.02),
        others=(tuple(paths), tuple(paths)),
    )
    return replace(made, **changes)


@dataclass(frozen=True)
class Record:
    """What the judges read of a circuit's record."""

    model: str
    strict: StrictReading | None
    losses: dict[str, float]
    found: bool = True
    paths: tuple[StrictPath, ...] = ()
    ends: tuple[Any, ...] = ((),)
    certified: tuple[str, ...] = ("natural", "strict")
    bar: float = 0.05
    given_up: bool = False


A_LIKE = Setup("a", RetrievalProblem(hops=3), Recipe(layers=12, heads=1, d_model=16, steps=10, batch_size=1))
D_LIKE = Setup("d", RetrievalProblem(hops=4), Recipe(layers=24, heads=1, d_model=16, steps=1000, batch_size=1))


def studied(
    reading: StrictReading | None,
    name: str = "a",
    setup: Setup = A_LIKE,
    learned: Learned | None = None,
    full: float = 0.008,
    **changes: Any,
) -> Studied:
    """A model of that reading; the hash of its record is its name, and its seed follows from it."""
    record = Record(name, reading, {"full": full}, found=reading is not None)
    circuit: Any = replace(record, **changes)
    seed = int.from_bytes(name.encode())
    return Studied(name, setup, seed, 0, learned or Learned(0.008, 0.007, (0.006, 0.009)), circuit)


def searched(model: Studied, **how: Any) -> Studied:
    """The same, by a record that says how the search went."""
    circuit: Any = model.circuit
    return replace(model, circuit=replace(circuit, **how))


def circuits(*models: Studied, scale: str = "paper") -> CircuitResult:
    """What a study of these models found."""
    return CircuitResult(ModelStudy(scale, (A_LIKE,), "transformers", "quick"), models)
