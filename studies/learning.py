"""Does the laptop's recipe learn three hops, how reliably, and after how many steps?

Forty seeds a condition, none of them used when its recipe was chosen. The budget of a seed is the steps before the
recipe's learning rate decays; what is learned later does not count. Conditions: the plain recipe; with twice the
budget; with twice the heads and less weight decay, a flatter initial attention (`qk_gain` 2) or head dropout (0.1);
and, on forty seeds of their own, with head dropout that begins once a run has learned its first hop.

Rule, for each condition: with 4 layers 95% of the seeds learn x3 within the budget; with 3, the fewest that theory
allows, 90%; with 2, all learn x1. Confirmed: so many did, and none learned a hop for which theory says that it has too
few layers. Refuted: so many no longer can, whatever the rest does, or a run beat the theory. Inconclusive: seeds are
missing (two conditions were stopped when a better recipe was found).

    python -m studies learning results/studies/learning
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import hopscope as hs
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions, table
from studies.tools.judgements import Judgement, as_many_as
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "LearningStudy", "judge", "quick", "run", "standard", "table"]

WANTED: Mapping[int, tuple[int, float]] = {4: (3, 0.95), 3: (3, 0.9), 2: (1, 1.0)}
"""By layers: the hop that must be learned, and by which share of the seeds."""

LONGER = 3, 2
"""The depths, in layers, of the conditions with twice the budget."""

LESS_DECAY, LESS_SHARP, LEFT_OUT = 0.03, 2.0, 0.1
"""Weight decay, `qk_gain` and `head_dropout` of the conditions with twice the heads, each of which changes one of
them."""


@dataclass(frozen=True)
class LearningStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all conditions; its layers are varied.
        seeds: the seeds of every condition but the last ones.
        fresh: the seeds of the last ones, in which heads are left out once a hop is learned.
    """

    recipe: hs.Recipe
    seeds: tuple[int, ...] = tuple(range(1000, 1040))
    fresh: tuple[int, ...] = tuple(range(1100, 1140))

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each depth, then those with a longer budget, then those with twice the heads."""
        budget = self.recipe.steps - ceil(self.recipe.decay_fraction * self.recipe.steps)
        once, twice = (replace(self.recipe, steps=steps) for steps in (budget, 2 * budget))
        heads = 2 * once.heads
        more_heads = replace(twice, heads=heads, head_dim=once.head_dim or once.d_model // once.heads)
        less_decay, left_out = replace(more_heads, weight_decay=LESS_DECAY), replace(more_heads, head_dropout=LEFT_OUT)
        shapes = [
            *((f"{layers}-layers", layers, once) for layers in WANTED),
            *((f"{layers}-layers-twice-the-steps", layers, twice) for layers in LONGER),
            *((f"{layers}-layers-{heads}-heads", layers, less_decay) for layers in WANTED),
            (f"3-layers-{heads}-heads-gain-2", 3, replace(more_heads, initial=hs.InitialWeights(qk_gain=LESS_SHARP))),
            *((f"{layers}-layers-{heads}-heads-dropout", layers, left_out) for layers in WANTED),
        ]
        later = replace(left_out, steps=budget, head_dropout_after=1)
        last = [(f"{layers}-layers-{heads}-heads-dropout-later", layers, later) for layers in WANTED]
        return [
            hs.Setup(name, hs.RetrievalProblem(hops=3), replace(recipe, layers=layers), seeds)
            for group, seeds in ((shapes, self.seeds), (last, self.fresh))
            for name, layers, recipe in group
        ]


def standard(recipe: hs.Recipe) -> LearningStudy:
    """The study of a recipe."""
    return LearningStudy(recipe)


def quick(recipe: hs.Recipe) -> LearningStudy:
    """A tiny version that only shows that the study runs."""
    return LearningStudy(replace(recipe, steps=20), (0,), (2,))


def run(study: LearningStudy, folder: Path, work: Work) -> Conditions:
    """Train what is not trained yet, and read what was learned."""
    return conditions.train(study.conditions, folder, work)


def judge(found: Conditions) -> list[Judgement]:
    """Judge by the rule above, condition by condition."""
    return [_judge(condition) for condition in found.conditions]


def _judge(condition: Condition) -> Judgement:
    hop, share = WANTED[condition.layers]
    planned, beyond = len(condition.planned), condition.beyond_theory
    wanted = ceil(share * planned - 1e-9)
    change = condition.name.removeprefix(f"{condition.layers}-layers").replace("-", " ").lstrip()
    hypothesis = f"{condition.layers} layers{change and ', '}{change}: x{hop} in {wanted} of {planned} seeds"
    also, learned = f"{beyond} beyond theory", len(condition.steps(hop))
    return as_many_as(hypothesis, wanted, learned, len(condition.seeds), planned, also=also, refuted=beyond > 0)


STUDY = Study(
    "learning",
    "How reliably does the laptop's recipe learn, and after how many steps?",
    Conditions,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=lambda study: [condition.name for condition in study.conditions],
)
