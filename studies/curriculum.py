"""How little curriculum is enough?

The implicit curriculum asks a query for every hop of its chain. Here it is asked for fewer: of three hops (four layers)
and of four (five layers) for each set of hops that has the last one in it; for all of three, but with less weight on
those before the last; and for the last of three alone, with six layers, with the first head handed over, and with ten
times the steps. Ten seeds an arm.

Rule, for each arm: is it enough, that is, does more than half of all seeds learn the last hop within the budget? As
asked: the lower 95% Clopper-Pearson bound on their share is above one half. Not as asked: the upper bound is below one
half, and with every hop asked for, the positive control with as many layers, the lower one is above. Else inconclusive.

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
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms, table
from studies.tools.judgements import Judgement, most_of
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "CurriculumStudy", "enough", "judge", "quick", "run", "standard", "table"]

HANDED = (hs.HeldHead(1, 1, "previous"),)
"""The first useful head of every circuit: it looks at the token before."""


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
        recipe: the recipe of all arms; its layers, weights of hops, held heads and steps are varied.
        hops: the numbers of hops D of which every set is asked for, with one layer more than theory asks for.
        weights: weights of the hops before the last, which has 1, for the first D.
        longer: how many times the steps an arm gets in which the last hop alone is asked for.
        seeds: the seeds of every arm.
    """

    recipe: hs.Recipe
    hops: tuple[int, ...] = (3, 4)
    weights: tuple[float, ...] = (0.1, 0.01, 0.001)
    longer: int = 10
    seeds: tuple[int, ...] = tuple(range(5000, 5010))

    @property
    def arms(self) -> list[hs.Setup]:
        """The arms: sets of hops, then weights, then what may stand in for a curriculum."""
        first = self.hops[0]
        layers = hs.theory.depths(first).causal + 1
        recipe, every = replace(self.recipe, layers=layers), hs.RetrievalProblem(hops=first)
        alone, deep = replace(every, curriculum=False), replace(recipe, layers=layers + 2)
        found = [arm for hops in self.hops for arm in self._sets(hops)]
        for weight in self.weights:
            weighted = replace(recipe, hooks=f"studies.curriculum:{HOOKS[weight].__name__}")
            found.append(hs.Setup(f"{first}-hops/weight-{weight:g}", every, weighted, self.seeds))
        found.append(hs.Setup(f"{first}-hops/all/{layers + 2}-layers", every, deep, self.seeds))
        for name, changed in (
            (f"{layers + 2}-layers", deep),
            ("first-head-handed", replace(recipe, held=HANDED)),
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


def run(study: CurriculumStudy, folder: Path, work: Work) -> Arms:
    """Train what is not trained yet, and read what was learned."""
    return arms.train(study.arms, folder, work)


def enough(arm: ArmLearned) -> bool:
    """Whether, with confidence, more than half of all seeds learn the last hop."""
    return _most_learn(arm).verdict == "as asked"


def judge(found: Arms) -> list[Judgement]:
    """Judge by the rule above, arm by arm."""
    return [_judge(arm, found) for arm in found.arms]


def _judge(arm: ArmLearned, found: Arms) -> Judgement:
    most = _most_learn(arm)
    if most.verdict != "not as asked" or any(enough(other) for other in found.arms if _is_control(other, arm)):
        return most
    return replace(
        most, verdict="inconclusive", reason="no positive control: not enough learn with every hop asked for"
    )


def _most_learn(arm: ArmLearned) -> Judgement:
    """The judgement by the rule, without its positive control."""
    learned = [step is not None for step in arm.times(arm.last)]
    return most_of(f"{arm.name}: enough for x{arm.last}", learned, few="too few seeds")


def _is_control(other: ArmLearned, arm: ArmLearned) -> bool:
    """Whether `other` is the control of `arm`: every hop asked for alike, as many layers and no head handed over."""
    plain = other.layers == arm.layers and "weight" not in other.name
    return plain and other.problem == replace(arm.problem, asked=None, curriculum=True)


STUDY = Study(
    "curriculum",
    "How little curriculum is enough?",
    Arms,
    standard,
    quick,
    run,
    judge,
    table,
    arms=lambda study: [arm.name for arm in study.arms],
)
