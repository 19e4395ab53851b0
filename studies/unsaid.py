"""Which of the things that the paper leaves unsaid keeps transformer D on its plateau?

The paper's transformer D stays on its plateau for about 450 of 800 epochs (some 3,600 of 6,400 steps), and then learns
all four hops in order (Section 9.2). By our default reading of its recipe it has learned x1 after 504 steps. The paper
says neither how weights are drawn, but for naming Radford et al. (2019), nor whether the two members of a pair share a
position code (Definition 2 says so, Section 6 does not), nor the order of the facts, a warm-up, clipping, or AdamW's
moments.

Stand-in: D's recipe at a quarter of its width and half its batch, everything else as it is (24 layers of one head of
16, no MLP, four hops, AdamW at a constant 0.001), with one or two of these things read otherwise; three seeds a
reading, at most the paper's 6,400 steps. GPT-2's scales are given by their ratio to torch's at D's own width: what
enters the stream is drawn at 0.1 of it (0.02 against 0.204), what blocks write at 0.14 (0.02 against 0.144), and
divided by the root of the number of layers besides at 0.03. Then the same at D's full size (`full-size`), minutes on a
GPU and an hour on a CPU.

Rules:

1. Each reading, small and at full size, gives the paper's plateau. Confirmed: in every seed x1 is learned (validation
   loss below 0.5) from step 1,792 on, at half the paper's share of the run or later, and all hops are by the end.
   Refuted: a seed has learned x1 before, or not all hops by the end. Inconclusive: seeds are missing. Three seeds of
   the stand-in make a candidate, not an answer; that is D itself, at its full size.
2. The small stand-in orders readings as D does: the default, GPT-2's scales, pair codes, and both together. Confirmed:
   all seeds of each learn x1 before any seed of the next does, if that ever does. Refuted: of two of them all seeds do
   so the other way round. Inconclusive: seeds are missing, or those of two readings overlap.

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
"""The fields of the recipe or of the problem that are read otherwise."""

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
"""Queries and keys drawn at 0.42 have at the start the logits of scores divided by the root of 512, D's width, where
its heads' width is 16. Under Adam that is not the same as scores that are divided so to the end, a later reading."""

READINGS: Mapping[str, Reading] = {
    DEFAULT: {},
    "pair codes": _PAIR,
    **{f"pair codes/{name}": {**_PAIR, **change} for name, change in ALONE.items()},
    **ALONE,
}

FULL = "full-size/"
"""The beginning of the names of conditions at D's full size."""

ORDERED = DEFAULT, "GPT-2-scales", "pair-codes", "pair-codes/GPT-2-scales"
"""Conditions, in the order in which D itself learned x1."""

HALF_THE_SHARE = 0.28
"""Half the share of the run that the paper's plateau takes; the same as in claim C13."""


@dataclass(frozen=True)
class UnsaidStudy:
    """What is trained.

    Attributes:
        recipe: the recipe that is read otherwise.
        small: the same recipe for the stand-in.
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
        """One condition for each reading, of the stand-in and then at full size."""
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
    """The study of transformer D's recipe; the stand-in has a quarter of its width and half its batch."""
    return UnsaidStudy(recipe, replace(recipe, d_model=recipe.d_model // 4, batch_size=recipe.batch_size // 2))


def quick(recipe: hs.Recipe) -> UnsaidStudy:
    """A tiny version that only shows that the study runs."""
    recipe = replace(recipe, steps=20)
    small = replace(recipe, d_model=recipe.d_model // 2)
    return UnsaidStudy(recipe, small, 1, {DEFAULT: {}, "pair codes": _PAIR}, (0,))


def run(study: UnsaidStudy, folder: Path, work: Work) -> Conditions:
    """Train what is not trained yet, the stand-in first, and read what was learned."""
    found = [conditions.train(of_size, folder, work) for of_size in study.sizes]
    return Conditions(tuple(condition for of_size in found for condition in of_size.conditions))


def judge(found: Conditions) -> list[Judgement]:
    """Judge by the rules above."""
    return [
        *map(_long_enough, found.conditions),
        _ordered({condition.name: condition for condition in found.conditions}),
    ]


def _long_enough(condition: Condition) -> Judgement:
    """Rule 1."""
    hypothesis = f"{condition.name} gives the paper's plateau"
    if not condition.seeds:
        return Judgement(hypothesis, "not run")
    n = len(condition.seeds)
    earliest = round(HALF_THE_SHARE * condition.budget, 6)  # for 6,400 steps it is 2e-13 above 1,792
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
    """Rule 2."""
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
