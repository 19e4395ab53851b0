"""Made-up runs by depth, in which claims C1 to C5 are false, or true with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from false_claims import Case
from made_results import trained

from hopscope.paper.claims import General
from hopscope.paper.presets import PAPER
from hopscope.paper.section_7 import DepthResult, TrainedModel
from hopscope.paper.section_7_claims import judge

Rng = np.random.Generator
Law = Callable[[Rng, int], int]
"""How many of five hops a run of so many layers learns, one after the other."""

LOW, HIGH = 0.01, 0.75

FIGURE_4 = (
    (0, 0, 0, 0, 0), (5, 0, 0, 0, 0), (8, 6, 4, 0, 0), (8, 8, 7, 3, 3),
    (8, 8, 7, 6, 4), (8, 8, 8, 7, 7), (8, 8, 8, 6, 5), (7, 7, 7, 6, 6),
)  # fmt: skip
"""How many of eight runs with 1, 2, ... layers learned each hop in `results/figure-4`."""


def _by_depth(
    rng: Rng, law: Law, seeds: Sequence[int] = (8,) * 8, turned: Callable[..., bool] | None = None
) -> list[TrainedModel]:
    """A sweep with the curriculum: so many seeds at 1, 2, ... layers. `turned` says whether a run that learned so many
    hops has its last two the other way round."""
    models: list[TrainedModel] = []
    for layers, count in enumerate(seeds, start=1):
        learned = [law(rng, layers) for _ in range(count)]
        steps = [[100 * (hop + 1) if hop < many else None for hop in range(5)] for many in learned]
        for many, row in zip(learned, steps, strict=True):
            if turned and many > 1 and turned(rng, many, layers):
                row[many - 1], row[many - 2] = row[many - 2], row[many - 1]
        losses = [[LOW if hop < many else HIGH for hop in range(5)] for many in learned]
        models += trained(layers, hops=5, losses=losses, crossings=steps)
    return models


def _as_stored(rng: Rng, layers: int) -> int:
    """As often as in `results/figure-4`, each hop given the one before it."""
    found, before = 0, 8
    for count in FIGURE_4[layers - 1]:
        if rng.random() >= (count / before if before else 0):
            break
        found, before = found + 1, count
    return found


def _ladder(rng: Rng, layers: int, needs: Sequence[int] = (2, 3, 3, 4, 4), luck: float = 0.9) -> int:
    """Each hop needs so many layers, and is then learned by this share of the runs that learned the one before it."""
    found = 0
    for least in needs:
        if layers < least or rng.random() >= luck:
            break
        found += 1
    return found


def _verdict(claim: str, models: Sequence[TrainedModel]) -> General:
    found = judge(DepthResult(PAPER.depth, tuple(models), (), "sweep"))
    return {finding.id: finding.in_general for finding in found}[claim]


def _plain(rng: Rng, succeeds: Sequence[float]) -> General:
    """C3: 64 runs without the curriculum, of which such shares succeed with 1, 2, ... layers where theory allows it."""
    plain = [
        model
        for layers in range(1, 9)
        for model in trained(layers, curriculum=False, losses=[
            [LOW if layers > 2 and rng.random() < succeeds[layers - 1] else rng.normal(0.755, 0.008)] for _ in range(8)
        ])
    ]  # fmt: skip
    return _verdict("C3", [*_by_depth(rng, _as_stored), *plain])


def _harder(rng: Rng, law: Law, seeds: Sequence[int] = (8,) * 8) -> General:
    return _verdict("C4", _by_depth(rng, law, seeds))


def _ordered(rng: Rng, turned: Callable[..., bool]) -> General:
    return _verdict("C5", _by_depth(rng, _as_stored, turned=turned))


def _noisy_order(rng: Rng) -> General:
    """C5: hops one after the other, about 200 steps apart and logged every 10, as in Figure 4's runs."""
    models: list[TrainedModel] = []
    for layers in range(1, 9):
        learned = [_as_stored(rng, layers) for _ in range(8)]
        at = np.cumsum(200 * np.exp(rng.normal(0, 0.9, (8, 5))), axis=1) // 10 * 10 + 10
        steps = [[int(at[run, hop]) if hop < many else None for hop in range(5)] for run, many in enumerate(learned)]
        losses = [[LOW if hop < many else HIGH for hop in range(5)] for many in learned]
        models += trained(layers, hops=5, losses=losses, crossings=steps)
    return _verdict("C5", models)


PAPER_NOW = (4, 5, 4, 5, 5, 5, 5, 5)
"""The seeds at each depth in `results/paper`."""

CASES = [
    *(Case("C3", f"{share:.0%} of runs succeed", "64 runs", False, partial(_plain, succeeds=(share,) * 8))
      for share in (0.02, 0.05)),
    Case("C3", "1 run in 5 of 8 layers succeeds, no other", "64 runs", False,
         partial(_plain, succeeds=(0,) * 7 + (0.2,))),
    Case("C3", "none succeeds", "64 runs", True, partial(_plain, succeeds=(0,) * 8)),
    *(Case("C4", f"{which} layers, then luck", "64 runs", False,
           partial(_harder, law=partial(_ladder, needs=needs)))
      for which, needs in (("all hops need 4", (4,) * 5), ("x1 needs 2 and all others 3", (2, 3, 3, 3, 3)),
                           ("x1 needs 2 and all others 4", (2, 4, 4, 4, 4)))),
    *(Case("C4", "each hop as often as in Figure 4's runs", f"{sum(seeds)} runs", True,
           partial(_harder, law=_as_stored, seeds=seeds)) for seeds in ((8,) * 8, PAPER_NOW)),
    Case("C5", "1 run in 10 with x4 and x5 has x5 first", "64 runs", False,
         partial(_ordered, turned=lambda rng, many, _: many == 5 and rng.random() < 0.1)),
    Case("C5", "1 run in 5 of 8 layers out of order", "64 runs", False,
         partial(_ordered, turned=lambda rng, _, layers: layers == 8 and rng.random() < 0.2)),
    Case("C5", "in order, as far apart as in Figure 4's runs", "64 runs", True, _noisy_order),
]  # fmt: skip
