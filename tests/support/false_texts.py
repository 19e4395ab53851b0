"""Made-up language models of our own, in which what the study `text` asks of them is false."""

from __future__ import annotations

from functools import partial

import numpy as np
from false_studies import StudyCase, verdict_on

from studies.text import Answered, TextResult, judge

Rng = np.random.Generator
PATHS = ((1, 1, ">x2", "x1>"), (2, 2, ">x1", ">x2"), (3, 1, "answer", ">x1"))


def _answered(seed: int, right: bool, hops: int = 2) -> Answered:
    """A model that answers; where it is not right its circuit is not certified, and delivers nothing."""
    losses = {"full": 0.0, "imposed": 0.01, "natural": 0.01, "nothing": 1.0}
    kept = "arm", seed, hops, 1.0, 0.99, 0.04, losses, right, (), "doubling", 3, 3, right, {"value": 2}
    return Answered(*kept, PATHS)


def _circuits(rng: Rng, n: int, share: float, asked: str) -> str:
    models = tuple(_answered(seed, bool(one)) for seed, one in enumerate(rng.random(n) < share))
    return verdict_on(asked, judge(TextResult(models)))


CERTIFIED, DELIVER = "every model has a certified circuit", "no circuit beats the theory"

CASES = [
    *(StudyCase("text 2", "3 models in 10 have no certified circuit", f"{n} models", False,
                partial(_circuits, n=n, share=0.7, asked=CERTIFIED)) for n in (3, 6)),
    *(StudyCase("text 3", "3 circuits in 10 do not carry the answer", f"{n} models", False,
                partial(_circuits, n=n, share=0.7, asked=DELIVER)) for n in (3, 6)),
]  # fmt: skip
