"""Claims C12 and C13, judged by made-up histories of models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from report_data import D_LIKE, SERIAL, strict, studied

from hopscope.emergence.history import Emergence, PathHistory
from hopscope.emergence.timing import Crossing, Order, Plateau
from hopscope.paper.claims import Finding
from hopscope.paper.models import FollowedModel, Learned, ModelStudy, Studied
from hopscope.paper.section_9 import EmergenceResult, judge


def emergence(**changes: Any) -> Emergence:
    """As the paper tells it: 56% of the run on the plateau, then x1, x2, x3, and x4 much later."""
    path = PathHistory(
        1, 1, ">x1", "x0>", 1, (0.1, 0.9), (0.0, 1.0), (0.0, 0.6), ((0.0, 0.0), (0.5, 0.7)),
        Crossing(500.0, 490.0, 510.0, (0, 1000)),
    )  # fmt: skip
    base = Emergence(
        run="r", model="m", number=0, seed=0, hops=4, chains=4, layers=24, heads=1, total_steps=1000, steps_per_epoch=8,
        asked=(1, 2, 3, 4),
        sequences=32, data_seed=0, ablation="uniform", steps=(0, 1000), losses=(0.75, 0.03),
        partial_losses=((0.75,) * 4, (0.02,) * 4), paths=(path, path), learned=(path.crossing,) * 4,
        order=Order((580.0, 620.0, 660.0, 860.0), (1.0, 0.99, 1.0)),
        plateau=Plateau(0.75, 10, 560, (580, 620, 660, 860)), measures=(), circuit={"imposed": 0.045}, troubles=(),
    )  # fmt: skip
    return replace(base, **changes)


def model(name: str = "d", learned: Learned | None = None, **changes: Any) -> Studied:
    return studied(strict(SERIAL, **changes), name, D_LIKE, learned or Learned(0.031, 0.03, (0.029, 0.033)))


def judged(*followed: FollowedModel, scale: str = "paper") -> dict[str, Finding]:
    study = ModelStudy(scale, (D_LIKE,), "transformers", "quick")
    return {finding.id: finding for finding in judge(EmergenceResult(study, followed))}


AS_TOLD = emergence()


def follow(count: int = 3, first: Emergence | None = AS_TOLD, **changes: Any) -> list[FollowedModel]:
    return [FollowedModel(model(f"d{number}"), emergence(**changes), first, None, True) for number in range(count)]
