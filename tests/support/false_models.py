"""Made-up models, circuits and histories, in which claims C6 to C13 are false, or true with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from false_claims import Case
from made_results import (
    BACKWARD,
    D_LIKE,
    DOUBLING,
    SERIAL,
    TIES,
    NamedPath,
    emergence,
    follow,
    imposed,
    judge_circuits,
    judge_histories,
    loss,
    studied,
)

from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.emergence.timing import Order, Plateau
from hopscope.paper.claims import Verdict
from hopscope.paper.models import Learned, Studied
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.statistics import Measured

Rng = np.random.Generator
Gaps = Callable[[Rng, int], list[float]]
"""How many steps apart so many hops come, one after the other."""

OTHER: tuple[NamedPath, ...] = (*TIES, (4, 1, "x1>", "x0?"), (7, 1, "x2>", ">x1"), (11, 1, ">x3", "x1>"))
MECHANISMS = (SERIAL, DOUBLING, BACKWARD, OTHER)


def _named(readings: Sequence[ImposedCircuit]) -> list[Studied]:
    return [studied(reading, f"m{number}") for number, reading in enumerate(readings)]


def _learn(rng: Rng, models: int, share: float, median: float = 0.006, spread: float = 0.2) -> Verdict:
    """C6: a share of models ends at twice the threshold; the others' losses are spread about a median."""
    made = []
    for number in range(models):
        mse = 0.02 if rng.random() < share else median * float(np.exp(rng.normal(0, spread)))
        made.append(studied(imposed(), f"m{number}", learned=Learned(mse, mse, (0.9 * mse, 1.1 * mse))))
    return judge_circuits(*made)["C6"].verdict


def _filled(rng: Rng, models: int, median: float, alike: float = 0.5, spread: float = 0.6) -> Verdict:
    """C10: the loss of the circuit alone is spread about a median by model and, in part, by filling."""
    readings = []
    for _ in range(models):
        own = rng.normal()
        noise = [spread * (alike**0.5 * own + (1 - alike) ** 0.5 * rng.normal()) for _ in range(3)]
        losses = [median * float(np.exp(deviation)) for deviation in noise]
        zero, uniform, identity = (loss(mse, 0.04 * mse) for mse in losses)
        readings.append(imposed(zero=zero, uniform=uniform, identity=identity))
    return judge_circuits(*_named(readings))["C10"].verdict


def _differ(rng: Rng, models: int, mechanisms: int) -> Verdict:
    """C9: every model has one of so many mechanisms, any as likely; a third of all searches end without its last
    step."""
    readings = []
    for _ in range(models):
        paths = MECHANISMS[rng.integers(mechanisms)]
        readings.append(imposed(paths, others=(paths, paths[:-1] if rng.random() < 1 / 3 else paths)))
    return judge_circuits(*_named(readings))["C9"].verdict


def _needed(rng: Rng, models: int, idle: float, little: bool = False) -> Verdict:
    """C11: a share of models has an idle path. Losses without one of the others are about 0.4, or little above the
    threshold, at which the search stopped; the first layer costs less."""
    readings = []
    for _ in range(models):
        own = rng.uniform(0.02, 0.045)
        without = 0.051 + rng.exponential(0.01, 6) if little else 0.4 * np.exp(rng.normal(0, 0.3, 6))
        if rng.random() < idle:
            without[-1] = 0.045
        losses = [Measured(mse, (0.97 * mse, 1.03 * mse)) for mse in map(float, without)]
        reading = imposed(zero=loss(own), first_layer_uniform=loss(rng.uniform(own, 0.05 if little else 0.1)))
        paths = [replace(path, without=measured) for path, measured in zip(reading.paths, losses, strict=True)]
        readings.append(replace(reading, paths=tuple(paths)))
    return judge_circuits(*_named(readings))["C11"].verdict


def _emerge(rng: Rng, models: int, gaps: Gaps, hops: int = 4) -> Verdict:
    """C13: the hops of each model come in order, so far apart."""
    setup = replace(D_LIKE, problem=RetrievalProblem(hops=hops))
    followed = []
    for known in follow(models):
        steps = 580 + np.cumsum([0, *gaps(rng, hops - 1)])
        order = Order(tuple(map(float, steps)), (1.0,) * (hops - 1))
        history = emergence(hops=hops, order=order, plateau=Plateau(0.75, 10, 560, tuple(map(int, steps))))
        model = replace(known.model, setup=setup)
        followed.append(replace(known, model=model, final=history, first=history))
    return judge_histories(*followed)["C13"].verdict


def _any_longest(rng: Rng, gaps: int) -> list[float]:
    """None is longer than another, but by luck."""
    return [20 + gap for gap in rng.exponential(60, gaps)]


def _much_longer(rng: Rng, gaps: int) -> list[float]:
    """The last is five times as long as any other, each with a noise of a third."""
    return [float(gap * np.exp(rng.normal(0, 0.33))) for gap in (*([50] * (gaps - 1)), 250)]


CASES = [
    *(Case("C6", "3 models in 10 do not learn", f"{n} models", False, partial(_learn, models=n, share=0.3))
      for n in (3, 10)),
    *(Case("C6", "losses about 0.006, spread by a fifth", f"{n} models", True, partial(_learn, models=n, share=0.0))
      for n in (3, 10)),
    *(Case("C9", "each model has one of 4 circuits", f"{n} models", False,
           partial(_differ, models=n, mechanisms=4)) for n in (3, 8)),
    *(Case("C10", "losses about 0.05 by model and filling", f"{n} models", False,
           partial(_filled, models=n, median=0.05)) for n in (3, 8)),
    *(Case("C10", "losses about 0.02 by model and filling", f"{n} models", True,
           partial(_filled, models=n, median=0.02)) for n in (3, 8)),
    *(Case("C11", f"an idle path in {share:.0%} of models", f"{n} models", False,
           partial(_needed, models=n, idle=share)) for n in (10, 20) for share in (0.2, 0.3)),
    Case("C11", "no path costs much", "10 models", False, partial(_needed, models=10, idle=0.0, little=True)),
    *(Case("C11", "an idle path in 5% of models", f"{n} models", True, partial(_needed, models=n, idle=0.05))
      for n in (10, 20)),
    *(Case("C13", f"gaps alike, D = {hops}", f"{n} models", False,
           partial(_emerge, models=n, gaps=_any_longest, hops=hops)) for hops, n in ((3, 3), (3, 4), (4, 3))),
    Case("C13", "the last gap five times as long, with noise", "3 models", True,
         partial(_emerge, models=3, gaps=_much_longer)),
]  # fmt: skip
