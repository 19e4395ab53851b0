"""How little curriculum is enough?

The implicit curriculum gives a query a target for every hop of its chain. The conditions change that:

- three hops (four layers) and four hops (five layers), for each set of target hops that contains the last hop;
- three hops with all hops as targets, but with less weight on the hops before the last;
- three hops with the last hop as the only target, with six layers or with ten times the steps;
- mixtures of D in one batch: a query has one target, the end of its chain, but chains differ in length between the
  sequences of a batch. A sequence of fewer hops has zero vectors in place of the pairs that it lacks. The lengths are
  1, 2 and 3; 1 and 3; or 2 and 3, in equal shares. Validation asks for three hops only.

Each condition has ten seeds, and each mixture has ten seeds of its own. Rule, for each condition: the condition is
enough, that is, more than half of all seeds learn the last hop within the budget. Confirmed: the lower 95%
Clopper-Pearson bound on the share of seeds that learn it is above one half. Refuted: the upper bound is below one half,
and the lower bound is above one half for the positive control, which has every hop as a target and the same number of
layers. Otherwise inconclusive.

Mixtures were added on 2026-11-30, by the same rule. Expected before their runs, from what the sets of target hops had
shown: 1, 2 and 3 is enough; 2 and 3 is not.

All conditions share their ten seeds, except the mixtures. So some conditions were trained again, each with seeds of its
own and judged by the same rule (docs/studies/plans/2026-11-30-own-seeds.md).

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
    """Training hooks that give the hops before the last hop less weight in the training loss."""

    weight: float

    def weigh(self, losses: Float[Tensor, "model hop"]) -> Float[Tensor, "model hop"]:
        """Return the losses multiplied by their weights."""
        weights = torch.full(losses.shape[1:], self.weight, device=losses.device)
        weights[-1] = 1.0
        return losses * weights


class OneTenth(_LessWeight):
    """Hooks with a weight of 0.1."""

    weight = 0.1


class OneHundredth(_LessWeight):
    """Hooks with a weight of 0.01."""

    weight = 0.01


class OneThousandth(_LessWeight):
    """Hooks with a weight of 0.001."""

    weight = 0.001


HOOKS = {hooks.weight: hooks for hooks in (OneTenth, OneHundredth, OneThousandth)}


class _Mixture(hs.TrainingHooks):
    """Training hooks that shorten chains: sequence i of a batch has `depths[i % len(depths)]` hops."""

    depths: tuple[int, ...]

    def change(self, batch: hs.Batch) -> hs.Batch:
        """Return the batch with zero vectors in place of pairs beyond each sequence's hops, and new ends as targets."""
        inputs, targets = batch.inputs.clone(), batch.targets.clone()
        for first, hops in enumerate(self.depths):
            some = (slice(None), slice(first, None, len(self.depths)))
            symbols, place = batch.inputs[some], batch.place[some]
            ends = place[..., 2 * hops - 1].gather(-1, place[..., -1].argsort(dim=-1))  # in the order of the queries
            width = targets.shape[-1]
            targets[some] = symbols[..., :width].gather(-2, ends[..., None].expand(*ends.shape, width))
            beyond = place[..., 2 * hops : -1].flatten(-2)
            inputs[some] = symbols.scatter(-2, beyond[..., None].expand(*beyond.shape, symbols.shape[-1]), 0.0)
        return replace(batch, inputs=inputs, targets=targets)


class Depths123(_Mixture):
    """Hooks for sequences of one, two and three hops."""

    depths = (1, 2, 3)


class Depths13(_Mixture):
    """Hooks for sequences of one and three hops."""

    depths = (1, 3)


class Depths23(_Mixture):
    """Hooks for sequences of two and three hops."""

    depths = (2, 3)


AGAIN = (
    "3-hops/x3",
    "3-hops/x1-x2-x3",
    "3-hops/x2-x3",
    "3-hops/x1-x3",
    "3-hops/x3-alone/6-layers",
    "3-hops/all/6-layers",
    "4-hops/x2-x3-x4",
    "4-hops/x1-x2-x3-x4",
)
"""The conditions with seeds of their own, in the order of their runs."""


@dataclass(frozen=True)
class CurriculumStudy:
    """The settings of the study.

    Attributes:
        recipe: the recipe of all conditions; its layers, weights of hops and steps are varied.
        hops: the values of D. All sets of target hops are trained with one layer more than theory asks for.
        weights: for the first D, the weights of the hops before the last hop; the last hop has weight 1.
        longer: the factor by which the steps of a condition with only the last hop are multiplied.
        mixtures: for the first D, hooks that mix sequences of different D in a batch.
        seeds: the seeds of every condition that is not a mixture; each mixture adds 100, 200, ... to them.
        again: conditions that are trained once more, each with `own_seeds` seeds that no other condition has.
        own_seeds: number of seeds of each of these.
    """

    recipe: hs.Recipe
    hops: tuple[int, ...] = (3, 4)
    weights: tuple[float, ...] = (0.1, 0.01, 0.001)
    longer: int = 10
    mixtures: tuple[type[_Mixture], ...] = (Depths123, Depths13, Depths23)
    seeds: tuple[int, ...] = tuple(range(5000, 5010))
    again: tuple[str, ...] = AGAIN
    own_seeds: int = 6

    @property
    def conditions(self) -> list[hs.Setup]:
        """The conditions: sets of target hops, weights, more layers or steps instead of a curriculum, and mixtures."""
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
        for number, mixture in enumerate(self.mixtures, start=1):
            mixed = replace(recipe, hooks=f"studies.curriculum:{mixture.__name__}")
            name = f"{first}-hops/mixture-{'-'.join(map(str, mixture.depths))}"
            found.append(hs.Setup(name, alone, mixed, tuple(seed + 100 * number for seed in self.seeds)))
        named = {condition.name: condition for condition in found}
        for number, name in enumerate(self.again):
            own = tuple(range(5400 + 100 * number, 5400 + 100 * number + self.own_seeds))
            found.append(replace(named[name], name=f"{name}/own-seeds", seeds=own))
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
    """Return the study of a recipe, with twice the recipe's steps."""
    return CurriculumStudy(replace(recipe, steps=2 * recipe.steps))


def quick(recipe: hs.Recipe) -> CurriculumStudy:
    """Return a tiny version, which only shows that the study runs."""
    return CurriculumStudy(replace(recipe, steps=20), (2,), (0.1,), longer=2, mixtures=(), seeds=(0,), again=())


def run(study: CurriculumStudy, folder: Path, work: Work) -> Conditions:
    """Train the missing runs, and return what the seeds of each condition learned."""
    return conditions.train(study.conditions, folder, work)


def enough(condition: Condition) -> bool:
    """Whether, with confidence, more than half of all seeds learn the last hop."""
    return _most_learn(condition).verdict == "confirmed"


def judge(found: Conditions) -> list[Judgement]:
    """Judge each condition by the rule above."""
    return [_judge(condition, found) for condition in found.conditions]


def _judge(condition: Condition, found: Conditions) -> Judgement:
    most = _most_learn(condition)
    if most.verdict != "refuted" or any(enough(other) for other in found.conditions if _is_control(other, condition)):
        return most
    return replace(
        most, verdict="inconclusive", reason="no positive control: not enough learn with every hop as target"
    )


def _most_learn(condition: Condition) -> Judgement:
    """Return the judgement by the rule without the positive control."""
    learned = [step is not None for step in condition.times(condition.last)]
    return most_of(f"{condition.name}: enough for x{condition.last}", learned, few="too few seeds")


def _is_control(other: Condition, condition: Condition) -> bool:
    """Whether `other` is the control of `condition`: every hop is a target, with the same number of layers."""
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
    conditions=conditions.names,
)
