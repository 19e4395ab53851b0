"""Made-up models, circuits and histories, in which claims C6 to C19 are false, or true with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from false_claims import Case
from made_results import (
    BACKWARD,
    DOUBLING,
    SERIAL,
    TIES,
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
from hopscope.paper.claims import General
from hopscope.paper.models import Learned
from hopscope.problem.paths import NamedPath

Rng = np.random.Generator
MODELS = 40
OTHER: tuple[NamedPath, ...] = (*TIES, (4, 1, "x1>", "x0?"), (7, 1, "x2>", ">x1"), (11, 1, ">x3", "x1>"))


def _without(path_loss: float) -> ImposedCircuit:
    """A circuit of which the last path costs so much."""
    made = imposed()
    return replace(made, paths=(*made.paths[:-1], replace(made.paths[-1], without=loss(path_loss))))


FALSE: dict[str, ImposedCircuit] = {
    "C7": imposed((*SERIAL, (9, 1, "x0?", "x0>"))),
    "C8": imposed((TIES[0], *SERIAL[3:])),
    "C10": imposed(zero=loss(0.06), uniform=loss(0.06), identity=loss(0.06)),
    "C11": _without(0.1),
}
"""By claim a circuit of which it is false: a fifth head, two pairs untied, a loss above the threshold, an idle path."""


def _circuits(rng: Rng, claim: str, share: float) -> General:
    """A share of models has a circuit of which the claim is false."""
    made = [FALSE[claim] if rng.random() < share else imposed() for _ in range(MODELS)]
    return judge_circuits(*(studied(reading, f"m{n}") for n, reading in enumerate(made)))[claim].in_general


def _learn(rng: Rng, share: float) -> General:
    """C6: a share of models ends at twice the threshold."""
    losses = [0.02 if rng.random() < share else 0.006 for _ in range(MODELS)]
    made = (studied(imposed(), f"m{n}", learned=Learned(mse, 0.004, (mse, mse))) for n, mse in enumerate(losses))
    return judge_circuits(*made)["C6"].in_general


def _differ(rng: Rng) -> General:
    """C9: every model has one of four mechanisms, any as likely."""
    paths = [(SERIAL, DOUBLING, BACKWARD, OTHER)[rng.integers(4)] for _ in range(MODELS)]
    return judge_circuits(*(studied(imposed(mechanism), f"m{n}") for n, mechanism in enumerate(paths)))["C9"].in_general


def _emerge(rng: Rng, claim: str, gaps: Callable[[Rng], Sequence[float]], left: int = 560) -> General:
    """C13, C16 and C19: the hops of each model come so far apart, after such a plateau."""
    followed = []
    for known in follow(MODELS):
        steps = 580 + np.cumsum([0, *gaps(rng)])
        flat = Plateau(0.75, 10, left, tuple(map(int, steps)))
        history = emergence(order=Order(tuple(map(float, steps)), (1.0,) * 3), plateau=flat)
        followed.append(replace(known, final=history))
    return judge_histories(*followed)[claim].in_general


def _any_longest(rng: Rng) -> list[float]:
    """None is longer than another, but by luck."""
    return [20 + gap for gap in rng.exponential(60, 3)]


def _much_longer(rng: Rng) -> list[float]:
    """The last is five times as long as any other, each with a noise of a fifth."""
    return [float(gap * np.exp(rng.normal(0, 0.2))) for gap in (50, 50, 250)]


def _at_once(rng: Rng) -> list[float]:
    """One model in five delivers two hops at once."""
    return [50, 0 if rng.random() < 0.2 else 50, 250]


N = f"{MODELS} models"
CASES = [
    Case("C6", "1 model in 5 does not learn", N, False, partial(_learn, share=0.2)),
    Case("C6", "all learn", N, True, partial(_learn, share=0.0)),
    *(Case(claim, "false of 1 model in 5", N, False, partial(_circuits, claim=claim, share=0.2)) for claim in FALSE),
    *(Case(claim, "false of 1 model in 100", N, True, partial(_circuits, claim=claim, share=0.01)) for claim in FALSE),
    Case("C9", "each model has one of 4 circuits", N, False, _differ),
    Case("C13", "1 model in 5 delivers two hops at once", N, False, partial(_emerge, claim="C13", gaps=_at_once)),
    Case("C16", "plateaus of a tenth of the run", N, False, partial(_emerge, claim="C16", gaps=_much_longer, left=100)),
    Case("C19", "gaps alike", N, False, partial(_emerge, claim="C19", gaps=_any_longest)),
    Case("C19", "the last gap five times as long, with noise", N, True,
         partial(_emerge, claim="C19", gaps=_much_longer)),
]  # fmt: skip
