"""How little curriculum is enough?

The implicit curriculum gives a query a target for every hop of its chain. Here it has fewer: of three hops (four
layers) and of four (five layers), each set of hops that contains the last one; of three hops, all of them with less
weight on those before the last; and the last of three alone, with six layers, and with ten times the
steps. Ten seeds a condition.

Rule, for each condition: it is enough, that is, more than half of all seeds learn the last hop within the budget.
Confirmed: the lower 95% Clopper-Pearson bound on their share is above one half. Refuted: the upper bound is below one
half, and with every hop as target, the positive control with as many layers, the lower one is above. Otherwise
inconclusive.

    python -m studies curriculum results/studies/curriculum
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions, table
from studies.tools.judgements import Judgement, most_of
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "CurriculumStudy", "enough", "judge", "quick", "run", "standard", "table"]


class _LessWeight(hs.TrainingHooks):
    """Gives the hops before the last less weight in the training loss."""

    weight: float

    def weigh(self, losses: Float[Tensor, "model hop"]) -> Float[Tensor, "model hop"]:
        """Losses times their weights."""
        weights = torch.full(losses.shape[1:], self.weight, device=losses.device)
        weights[-1] = 1.0
        return losses * weights


class OneTenth(_LessWeight):
    """A weight of 0.1."""

    weight = 0.1


class OneHundredth(_LessWeight):
    """A weight of 0.01."""

    weight = 0.01


class OneThousandth(_LessWeight):
    """A weight of 0.001."""

    weight = 0.001


HOOKS = {hooks.weight: hooks for hooks in (OneTenth, OneHundredth, OneThousandth)}


@dataclass(frozen=True)
class CurriculumStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all conditions; its layers, weights of hops and steps are varied.
        hops: the numbers of hops D of which every set is a target, with one layer more than theory asks for.
        weights: weights of the hops before the last, which has 1, for the first D.
        longer: how many times the steps a condition with the last hop alone gets.
        seeds: the seeds of every condition.
    """

    recipe: hs.Recipe
    hops: tuple[int, ...] = (3, 4)
    weights: tuple[float, ...] = (0.1, 0.01, 0.001)
    longer: int = 10
    seeds: tuple[int, ...] = tuple(range(5000, 5010))

    @property
    def conditions(self) -> list[hs.Setup]:
        """The conditions: sets of hops, then weights, then what may replace a curriculum."""
        first = self.hops[0]
        layers = hs.theory.depths(first).causal + 1
        recipe, every = replace(self.recipe, layers=layers), hs.RetrievalProblem(hops=first)
        alone, deep = replace(every, curriculum=False), replace(recipe, layers=layers + 2)
        found = [condition for hops in self.hops for condition in self._sets(hops)]
        for weight in self.weights:
            weighted = replace(recipe, hooks=f"studies.curriculum:{HOOKS[weight].__name__}")
            found.append(hs.Setup(f"{first}-hops/weight-{weight:g}", every, weighted, self.seeds))
        found.append(hs.Setup(f"{first}-hops/all/{layers + 2}-layers", every, deep, self.seeds))
        for name, changed in (
            (f"{layers + 2}-layers", deep),
            (f"{self.longer}-times-the-steps", replace(recipe, steps=self.longer * recipe.steps)),
        ):
            found.append(hs.Setup(f"{first}-hops/x{first}-alone/{name}", alone, changed, self.seeds))
        return found

    def _sets(self, hops: int) -> list[hs.Setup]:
        recipe = replace(self.recipe, layers=hs.theory.depths(hops).causal + 1)
        before = range(1, hops)
        return [
            hs.Setup(
                f"{hops}-hops/{'-'.join(f'x{hop}' for hop in (*combination, hops))}",
                hs.RetrievalProblem(hops=hops, asked=(*combination, hops)),
                recipe,
                self.seeds,
            )
            for size in range(hops)
            for combination in combinations(before, size)
        ]


def standard(recipe: hs.Recipe) -> CurriculumStudy:
    """The study of a recipe with twice its steps."""
    return CurriculumStudy(replace(recipe, steps=2 * recipe.steps))


def quick(recipe: hs.Recipe) -> CurriculumStudy:
    """A tiny version that only shows that the study runs."""
    return CurriculumStudy(replace(recipe, steps=20), (2,), (0.1,), longer=2, seeds=(0,))


def run(study: CurriculumStudy, folder: Path, work: Work) -> Conditions:
    """Train what is not trained yet, and read what was learned."""
    return conditions.train(study.conditions, folder, work)


def enough(condition: Condition) -> bool:
    """Whether, with confidence, more than half of all seeds learn the last hop."""
    return _most_learn(condition).verdict == "confirmed"


def judge(found: Conditions) -> list[Judgement]:
    """Judge by the rule above, condition by condition."""
    return [_judge(condition, found) for condition in found.conditions]


def _judge(condition: Condition, found: Conditions) -> Judgement:
    most = _most_learn(condition)
    if most.verdict != "refuted" or any(enough(other) for other in found.conditions if _is_control(other, condition)):
        return most
    return replace(
        most, verdict="inconclusive", reason="no positive control: not enough learn with every hop as target"
    )


def _most_learn(condition: Condition) -> Judgement:
    """The judgement by the rule, without its positive control."""
    learned = [step is not None for step in condition.times(condition.last)]
    return most_of(f"{condition.name}: enough for x{condition.last}", learned, few="too few seeds")


def _is_control(other: Condition, condition: Condition) -> bool:
    """Whether `other` is the control of `condition`: every hop as target and as many layers."""
    plain = other.layers == condition.layers and "weight" not in other.name
    return plain and other.problem == replace(condition.problem, asked=None, curriculum=True)


STUDY = Study(
    "curriculum",
    "How little curriculum is enough?",
    Conditions,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=lambda study: [condition.name for condition in study.conditions],
)
