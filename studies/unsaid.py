"""Which choice that the paper leaves unsaid keeps transformer D on its plateau?

The paper's transformer D stays on its plateau for about 450 of 800 epochs (some 3,600 of 6,400 steps), and then learns
all four hops in order (Section 9.2). With our default reading of its recipe, it has learned x1 after 504 steps. The
paper does not say how weights are drawn, except that it names Radford et al. (2019). By its Definition 2, the two
members of a pair share a position code; Section 6 does not say so. The paper also leaves out the order of the facts,
a warm-up, clipping, and AdamW's moments.

A stand-in for D has a quarter of its width and half its batch, and is otherwise the same: 24 layers of one head of 16,
no MLP, four hops, AdamW at a constant 0.001. Each reading changes one or two of these unsaid choices, with three seeds
and at most the paper's 6,400 steps. GPT-2's scales are given by their ratio to torch's scales at D's own width. Weights
that enter the stream are drawn at 0.1 of torch's scale (0.02 against 0.204). Weights that blocks write with are drawn
at 0.14 (0.02 against 0.144), or at 0.03 if they are also divided by the root of the number of layers. The same readings
are then trained at D's full size (`full-size`), which takes minutes on a GPU and an hour on a CPU.

Rules:

1. Each reading, small and at full size, gives the paper's plateau. Confirmed: in every seed, x1 is learned (validation
   loss below 0.5) at step 1,792 or later, which is half the paper's share of the run, and all hops are learned by the
   end. Refuted: a seed learned x1 earlier, or had not learned all hops by the end. Inconclusive: seeds are missing.
   Three seeds of the stand-in give a candidate, not an answer; the answer is D itself, at its full size.
2. The stand-in orders readings as D does: the default, GPT-2's scales, pair codes, and both together. Confirmed: all
   seeds of each reading learn x1 before any seed of the next reading, which may never learn it. Refuted: for two of the
   readings, all seeds do so in the opposite order. Inconclusive: seeds are missing, or seeds of two readings overlap.

    python -m studies unsaid results/studies/unsaid
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import hopscope as hs
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions, table
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "UnsaidStudy", "judge", "quick", "run", "standard", "table"]

Reading = Mapping[str, Any]
"""The fields of the recipe or of the problem that a reading changes."""

DEFAULT = "default"

_PAIR: Reading = {"position": "pair"}

ALONE: Mapping[str, Reading] = {
    "GPT-2 scales": {"initial": hs.InitialWeights(output_gain=0.03, embedding_gain=0.1)},
    "GPT-2 scales not shrunk": {"initial": hs.InitialWeights(output_gain=0.14, embedding_gain=0.1)},
    "GPT-2 outputs": {"initial": hs.InitialWeights(output_gain=0.03)},
    "GPT-2 outputs not shrunk": {"initial": hs.InitialWeights(output_gain=0.14)},
    "GPT-2 embedding": {"initial": hs.InitialWeights(embedding_gain=0.1)},
    "queries and keys drawn at 0.42": {"initial": hs.InitialWeights(qk_gain=0.42)},
    "shallowest first": {"order": "shallowest-first"},
    "warm-up of a tenth": {"warmup": 640},
    "clipping and beta2 0.95": {"clip": 1.0, "beta2": 0.95},
    "scores over the root of d_model": {"score_scale": "d_model"},
    "decay without norms and biases": {"decay_all": False},
}
"""Queries and keys drawn at 0.42 start with the logits of scores divided by the root of 512, D's width, instead of the
root of 16, the width of its heads. The last reading but one divides scores throughout, which differs under Adam."""

READINGS: Mapping[str, Reading] = {
    DEFAULT: {},
    "pair codes": _PAIR,
    **{f"pair codes/{name}": {**_PAIR, **change} for name, change in ALONE.items()},
    **ALONE,
}

FULL = "full-size/"
"""The prefix of the names of conditions at D's full size."""

ORDERED = DEFAULT, "GPT-2-scales", "pair-codes", "pair-codes/GPT-2-scales"
"""The conditions of rule 2, in the order in which D itself learned x1."""

HALF_THE_SHARE = 0.28
"""Half the share of the run that the paper's plateau takes; the same as in claim C16."""


@dataclass(frozen=True)
class UnsaidStudy:
    """The models to train.

    Attributes:
        recipe: the recipe of transformer D, which the readings change.
        small: the same recipe at the size of the stand-in.
        hops: D.
        readings: the readings of the recipe or the problem, by name.
        seeds: the seeds of each reading.
    """

    recipe: hs.Recipe
    small: hs.Recipe
    hops: int = 4
    readings: Mapping[str, Reading] = field(default_factory=lambda: READINGS)
    seeds: tuple[int, ...] = (9300, 9301, 9302)

    @property
    def sizes(self) -> list[list[hs.Setup]]:
        """One condition for each reading, first for the stand-in and then at full size."""
        return [self._conditions(self.small, ""), self._conditions(self.recipe, FULL)]

    def _conditions(self, recipe: hs.Recipe, before: str) -> list[hs.Setup]:
        of_recipe = {field.name for field in fields(hs.Recipe)}
        return [
            hs.Setup(
                before + name.replace(" ", "-"),
                hs.RetrievalProblem(
                    hops=self.hops, **{key: value for key, value in change.items() if key not in of_recipe}
                ),
                replace(recipe, **{key: value for key, value in change.items() if key in of_recipe}),
                self.seeds,
            )
            for name, change in self.readings.items()
        ]


def standard(recipe: hs.Recipe) -> UnsaidStudy:
    """Return the study of transformer D's recipe; the stand-in has a quarter of its width and half its batch."""
    return UnsaidStudy(recipe, replace(recipe, d_model=recipe.d_model // 4, batch_size=recipe.batch_size // 2))


def quick(recipe: hs.Recipe) -> UnsaidStudy:
    """Return a tiny version that only shows that the study runs."""
    recipe = replace(recipe, steps=20)
    small = replace(recipe, d_model=recipe.d_model // 2)
    return UnsaidStudy(recipe, small, 1, {DEFAULT: {}, "pair codes": _PAIR}, (0,))


def run(study: UnsaidStudy, folder: Path, work: Work) -> Conditions:
    """Train the runs that are missing, the stand-in first, and read when each hop was learned."""
    found = [conditions.train(of_size, folder, work) for of_size in study.sizes]
    return Conditions(tuple(condition for of_size in found for condition in of_size.conditions))


def judge(found: Conditions) -> list[Judgement]:
    """Judge by the rules in the module's docstring."""
    return [
        *map(_long_enough, found.conditions),
        _ordered({condition.name: condition for condition in found.conditions}),
    ]


def _long_enough(condition: Condition) -> Judgement:
    """Judge by rule 1."""
    hypothesis = f"{condition.name} gives the paper's plateau"
    if not condition.seeds:
        return Judgement(hypothesis, "not run")
    n = len(condition.seeds)
    earliest = round(HALF_THE_SHARE * condition.budget, 6)  # for 6,400 steps the product is 2e-13 above 1,792
    right = [
        every is not None and first is not None and first >= earliest
        for first, every in zip(condition.times(1), condition.everything(), strict=True)
    ]
    steps = f"x1 at step {_steps(condition.times(1))}, all at {_steps(condition.everything())}"
    observed = f"{share_in_words(sum(right), n)}; {steps}"
    if not all(right):
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "confirmed", observed, n) if condition.finished else _missing(hypothesis, observed, n)


def _ordered(by_name: Mapping[str, Condition]) -> Judgement:
    """Judge by rule 2."""
    hypothesis = "the stand-in orders readings as transformer D does"
    found = [by_name[name] for name in ORDERED if name in by_name and by_name[name].seeds]
    if not found:
        return Judgement(hypothesis, "not run")
    times = [[math.inf if step is None else step for step in condition.times(1)] for condition in found]
    middles = [median(time) for time in times]
    steps = ("never" if math.isinf(step) else f"{step:g}" for step in middles)
    observed = ", ".join(f"{condition.name} {step}" for condition, step in zip(found, steps, strict=True))
    n = sum(len(condition.seeds) for condition in found)
    if len(found) < len(ORDERED) or not all(condition.finished for condition in found):
        return _missing(hypothesis, observed, n)
    if any(max(later) < min(earlier) for earlier, later in combinations(times, 2)):
        return Judgement(hypothesis, "refuted", observed, n)
    if all(max(earlier) < min(later) for earlier, later in pairwise(times)):
        return Judgement(hypothesis, "confirmed", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "seeds of two readings overlap")


def _missing(hypothesis: str, observed: str, n: int) -> Judgement:
    return Judgement(hypothesis, "inconclusive", observed, n, "seeds are missing")


def _steps(times: Sequence[int | None]) -> str:
    return ", ".join("never" if step is None else str(step) for step in times)


STUDY = Study(
    "unsaid",
    "Which unsaid part of the paper's recipe keeps transformer D on its plateau?",
    Conditions,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.D.recipe,
    conditions=lambda study: [condition.name for size in study.sizes for condition in size],
)
