"""Small made-up results of the reproduction, as its judges, figures and pages read them, and verdicts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from hopscope.benchmark.points import Point, Summary
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.circuits.circuit_parts import CircuitPath, ImposedCircuit, ImposedPath
from hopscope.emergence.history import Emergence, PathHistory
from hopscope.emergence.timing import Crossing, Order, Plateau
from hopscope.paper import section_4, section_8, section_9
from hopscope.paper.claims import Finding
from hopscope.paper.models import Learned, ModelStudy, Studied, StudiedModels
from hopscope.paper.recipes import A, B, C
from hopscope.paper.section_7 import TrainedModel
from hopscope.problem.paths import AttentionPath, Feed, NamedPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.questions import FORMULATIONS
from hopscope.statistics import Measured, wilson
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder

Losses = Sequence[Sequence[float | None]]


def trained(
    layers: int,
    *,
    curriculum: bool = True,
    hops: int = 3,
    losses: Losses | None = None,
    crossings: Sequence[Sequence[int | None]] | None = None,
    chains: int = 4,
    seeds: Sequence[int] | None = None,
) -> list[TrainedModel]:
    """Models of one depth; `losses` are by seed and hop asked for, None for every hop of a diverged seed."""
    width = hops if curriculum else 1
    rows = losses or [[0.1 * (hop + 1) + extra for hop in range(width)] for extra in (0.0, 0.02)]
    models = []
    for seed, row, steps in zip(
        seeds or range(len(rows)), rows, crossings or [[None] * width] * len(rows), strict=True
    ):
        mean = None if None in row else sum(row) / len(row)  # type: ignore[arg-type]
        error = None if mean is None else 0.001
        models.append(TrainedModel(hops, chains, curriculum, layers, seed, mean, tuple(row), mean, error, tuple(steps)))
    return models


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


def loss(mse: float, half: float = 0.001) -> Measured:
    """A loss with a narrow interval."""
    return Measured(mse, (mse - half, mse + half))


def imposed(paths: Sequence[NamedPath] = SERIAL, without: float = 0.4, **changes: Any) -> ImposedCircuit:
    """A circuit of the Appendix E procedure in which every claim on circuits holds, but for the number of models."""
    made = ImposedCircuit(
        paths=tuple(ImposedPath(*path, loss(without)) for path in paths),
        losses={
            fill: changes.pop(fill, loss(mse)) for fill, mse in (("zero", 0.01), ("uniform", 0.02), ("identity", 0.03))
        },
        fill="zero",
        first_layer_uniform=loss(0.08),
        others=(tuple(paths), tuple(paths)),
    )
    return replace(made, **changes)


@dataclass(frozen=True)
class Record:
    """What the judges read of a circuit's record."""

    model: str
    imposed: ImposedCircuit | None
    losses: dict[str, float]
    found: bool = True
    paths: tuple[CircuitPath | ImposedPath, ...] = ()
    ends: tuple[Any, ...] = ((),)
    max_loss: float = 0.05
    given_up: bool = False


A_LIKE = Setup("a", RetrievalProblem(hops=3), Recipe(layers=12, heads=1, d_model=16, steps=10, batch_size=1))
D_LIKE = Setup("d", RetrievalProblem(hops=4), Recipe(layers=24, heads=1, d_model=16, steps=1000, batch_size=1))


def studied(
    reading: ImposedCircuit | None,
    name: str = "a",
    setup: Setup = A_LIKE,
    learned: Learned | None = None,
    full: float = 0.008,
    **changes: Any,
) -> Studied:
    """A model of that reading; the hash of its record is its name, and its seed follows from it."""
    record = Record(name, reading, {"full": full}, found=reading is not None)
    circuit: Any = replace(record, **changes)
    seed, run = int.from_bytes(name.encode()), cast(RunFolder, None)
    return Studied(name, setup, seed, 0, run, learned or Learned(0.008, 0.007, (0.006, 0.009)), circuit)


def searched(model: Studied, **how: Any) -> Studied:
    """The same, by a record that says how the search went."""
    circuit: Any = model.circuit
    return replace(model, circuit=replace(circuit, **how))


ALL = ("C7", "C8", "C9", "C10", "C11")
"""The claims on circuits, but for C6 on losses."""


def judge_circuits(*models: Studied, scale: str = "paper") -> dict[str, Finding]:
    """The findings on C6 to C11 and C21, by claim, of a study that found these models."""
    study = ModelStudy(scale, tuple(model.setup for model in models))
    return {finding.id: finding for finding in section_8.judge(StudiedModels(study, models))}


def abc(**changes: Any) -> list[Studied]:
    """Transformers A, B and C as the paper describes them, all with the same changes."""
    setups = zip((A, B, C), (SERIAL, DOUBLING, BACKWARD), strict=True)
    return [studied(imposed(paths, **changes), setup.name, setup) for setup, paths in setups]


def many(count: int, *readings: ImposedCircuit, **changes: Any) -> list[Studied]:
    """So many models of A's shape with these readings in turn."""
    return [studied(readings[n % len(readings)], f"m{n}", **changes) for n in range(count)]


def emergence(**changes: Any) -> Emergence:
    """As the paper reports it: 56% of the run on the plateau, then x1, x2, x3, and x4 much later."""
    path = PathHistory(
        1, 1, ">x1", "x0>", 1, (0.1, 0.9), (0.0, 1.0), (0.0, 0.6), ((0.0, 0.0), (0.5, 0.7)),
        Crossing(500.0, 490.0, 510.0, (0, 1000)),
    )  # fmt: skip
    base = Emergence(
        run="r", model="m", number=0, seed=0, hops=4, chains=4, layers=24, heads=1, total_steps=1000, steps_per_epoch=8,
        asked=(1, 2, 3, 4),
        sequences=32, data_seed=0, steps=(0, 1000), losses=(0.75, 0.03),
        partial_losses=((0.75,) * 4, (0.02,) * 4), paths=(path, path), learned=(path.crossing,) * 4,
        order=Order((580.0, 620.0, 660.0, 860.0)),
        plateau=Plateau(0.75, 10, 560, (580, 620, 660, 860)), circuit={"imposed": 0.045},
    )  # fmt: skip
    return replace(base, **changes)


def model_d(name: str = "d", learned: Learned | None = None, **changes: Any) -> Studied:
    return studied(imposed(SERIAL, **changes), name, D_LIKE, learned or Learned(0.031, 0.03, (0.029, 0.033)))


def judge_histories(*models: Studied, others: Sequence[Studied] = ()) -> dict[str, Finding]:
    """The findings on C12, C13 and C16 to C19, by claim, of models that were followed, beside others that were not."""
    study = ModelStudy("paper", (), tuple(model.setup for model in models))
    return {finding.id: finding for finding in section_9.judge(StudiedModels(study, (*models, *others)))}


def follow(count: int = 3, **changes: Any) -> list[Studied]:
    return [replace(model_d(f"d{number}"), emergence=emergence(**changes)) for number in range(count)]


def answering(*paths: tuple[str, tuple[str | None, ...]]) -> Studied:
    """A model whose circuit has these paths, each with what reads it; None is the answer."""
    roles = RetrievalProblem(hops=3).all_roles
    parsed = [AttentionPath.parse(path, roles) for path, _ in paths]
    feeds = [tuple(Feed("q", AttentionPath.parse(to, roles) if to else None) for to in readers) for _, readers in paths]
    made = tuple(
        CircuitPath(path, "one_hot", 1.0, loss(0.4), loss(0.4), feed) for path, feed in zip(parsed, feeds, strict=True)
    )
    return studied(imposed(), paths=made)


NINE = [("equations", hops) for hops in range(1, 6)]
NINE += [(name, FORMULATIONS[name].paper_hops) for name in section_4.OTHERS]


def point(
    formulation: str, hops: int, model: str = "m", correct: int = 490, accepted: int = 500, **changes: Any
) -> Point:
    low, high = wilson(correct, accepted)
    made = Point(
        model=model, formulation=formulation, hops=hops, mode="sample", asked=500, unanswered=0, accepted=accepted,
        never_accepted=500 - accepted, correct=correct, accuracy=correct / accepted, low=low, high=high,
        lowest=correct / 500, highest=(correct + 500 - accepted) / 500, share=None, argmax=None, unweighed=None,
        first_accuracy=1.0, first_acceptance=1.0, mean_attempts=1.0, guess=section_4.GUESS[formulation], shortcut=0.25,
        p_guess=0.0, p_shortcut=0.0, reasoned=0, unchanged=0,
    )  # fmt: skip
    return replace(made, **changes)


def nine(model: str = "m", **changes: Any) -> list[Point]:
    return [point(formulation, hops, model, **changes) for formulation, hops in NINE]


def judge_answers(points: list[Point], settings: BenchmarkSettings | None = None) -> Finding:
    """The finding on C14."""
    summary = Summary(settings or BenchmarkSettings(), tuple(points), ()) if points else None
    return section_4.judge(section_4.BenchmarkResult(summary, ()))[0]
