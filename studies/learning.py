"""Does the laptop's recipe learn three hops, how reliably, and after how many steps?

Each condition has forty seeds, none of which was used when the recipe was chosen. The budget of a seed is the number of
steps before the recipe's learning rate decays; hops learned later do not count. The conditions are the plain recipe;
the plain recipe with twice the budget; twice the budget and twice the heads with one further change (less weight decay,
a flatter initial attention by `qk_gain` 2, or head dropout of 0.1); and, on forty other seeds, twice the heads with
head dropout that begins once a run has learned its first hop.

Rule, for each condition: within the budget, 95% of the seeds with 4 layers learn x3, 90% of those with 3 layers (the
fewest that theory allows) learn x3, and all seeds with 2 layers learn x1. Confirmed: that share of the seeds did, and
no seed learned a hop for which it has too few layers by theory. Refuted: the missing seeds can no longer make up the
share, or a seed learned a hop beyond theory. Inconclusive: seeds are missing. (Two conditions were stopped when a
better recipe was found.)

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
"""For each number of layers, the hop that must be learned and the share of the seeds that must learn it."""

LONGER = 3, 2
"""The depths, in layers, of the conditions with twice the budget."""

LESS_DECAY, LESS_SHARP, LEFT_OUT = 0.03, 2.0, 0.1
"""Weight decay, `qk_gain` and `head_dropout` of the conditions with twice the heads. Each condition changes one of the
three."""


@dataclass(frozen=True)
class LearningStudy:
    """The models to train.

    Attributes:
        recipe: the recipe on which all conditions are based.
        seeds: the seeds of all conditions except those in `fresh`.
        fresh: the seeds of the conditions in which head dropout begins once a hop is learned.
    """

    recipe: hs.Recipe
    seeds: tuple[int, ...] = tuple(range(1000, 1040))
    fresh: tuple[int, ...] = tuple(range(1100, 1140))

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each depth, then conditions with a longer budget, then conditions with twice the heads."""
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
    """Return the study of a recipe."""
    return LearningStudy(recipe)


def quick(recipe: hs.Recipe) -> LearningStudy:
    """Return a tiny version that only shows that the study runs."""
    return LearningStudy(replace(recipe, steps=20), (0,), (2,))


def run(study: LearningStudy, folder: Path, work: Work) -> Conditions:
    """Train the runs that are missing, and read when each hop was learned."""
    return conditions.train(study.conditions, folder, work)


def judge(found: Conditions) -> list[Judgement]:
    """Judge each condition by the rule in the module's docstring."""
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
    conditions=conditions.names,
)
