"""Made-up language models of our own, in which what the study `text` asks of them is false."""

from __future__ import annotations

from functools import partial

import numpy as np
from false_studies import StudyCase, verdict_on

from studies.text import judge
from studies.text_found import Answered, Grown, TextResult
from studies.text_otherwise import Otherwise, judge_otherwise

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


def _in_order(rng: Rng, n: int) -> str:
    """Either hop is learned first, as likely, a checkpoint before the other."""
    found, grown = [], []
    for seed in range(n):
        found += [_answered(seed, True, hops) for hops in (1, 2)]
        early, late = (0.3, 0.9, 0.9), (0.3, 0.3, 0.9)
        first = bool(rng.random() < 0.5)
        grown.append(Grown("arm", seed, (1, 2, 3), {"1": early if first else late, "2": late if first else early}, {}))
    return verdict_on("learned in order", judge(TextResult(tuple(found), tuple(grown))))


def _otherwise(rng: Rng, n: int, share: float) -> str:
    """A share of the models answers nine questions in ten that are foretold to be answered, the others guess."""
    right = [int(rng.binomial(512, 0.9 if one else 0.25)) for one in rng.random(n) < share]
    asked = [Otherwise("arm", seed, "names in any order", 2, 512, one) for seed, one in enumerate(right)]
    return judge_otherwise("arm", asked, lambda _: set(range(n)), False)[0].verdict


CERTIFIED, DELIVER = "every model has a certified circuit", "no circuit beats the theory"

CASES = [
    *(StudyCase("text 2", "3 models in 10 have no certified circuit", f"{n} models", False,
                partial(_circuits, n=n, share=0.7, asked=CERTIFIED)) for n in (3, 6)),
    *(StudyCase("text 3", "3 circuits in 10 do not carry the answer", f"{n} models", False,
                partial(_circuits, n=n, share=0.7, asked=DELIVER)) for n in (3, 6)),
    *(StudyCase("text, in order", "two hops come in any order", f"{n} models", False, partial(_in_order, n=n))
      for n in (3, 6)),
    *(StudyCase("text, otherwise", "3 models in 10 do not answer as foretold", f"{n} models", False,
                partial(_otherwise, n=n, share=0.7)) for n in (3, 6)),
]  # fmt: skip
