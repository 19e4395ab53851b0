"""Does the depth that training needs follow the depth that theory asks for?

We train D = 1 ... 8 hops with a causal mask (theory: floor(log2 D) + 2 layers) and without a mask (theory:
ceil(log3(4D + 1)) layers with many heads per layer, floor(log2 D) + 2 with one head). Depths are the theory's depth,
one layer fewer and one layer more, with six seeds each. Conditions with a mask, many heads, D = 2 ... 7 and one layer
fewer have twelve seeds, because only seeds that learned what their depth allows are evidence there.

Rules, for each mask and number of heads:

1. No run learns a hop for which it has too few layers. Confirmed: no run does, and the upper 95% Clopper-Pearson bound
   on how often a run would is below 10%. The bound counts runs that lack layers for a hop and learned every hop for
   which they have enough, if a deeper condition on the same problem (the positive control) learned the hop that they
   lack layers for. Refuted: a run does. Otherwise inconclusive.
2. For each D, the trained minimum depth (the least depth at which a seed learned all hops) is the theory's. Confirmed:
   a seed learned all hops at the theory's depth, and no seed did with fewer layers. Of the seeds with fewer layers that
   learned what their depth allows, the upper 95% Clopper-Pearson bound on how often a seed would learn all hops is
   below one half, and a smaller share of them than of the seeds at the theory's depth did (Fisher's exact test,
   one-sided, p below 5%). Refuted: a seed did with fewer layers, or no seed did at the theory's depth and more did with
   more layers (by the same test). Otherwise inconclusive.

    python -m studies depth results/studies/depth
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import clopper_pearson, fisher
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions, table
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement, never
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "DepthLawStudy", "judge", "kind", "quick", "run", "standard", "table", "trained_minimum"]


@dataclass(frozen=True)
class DepthLawStudy:
    """The settings of the study.

    Attributes:
        recipe: the recipe of all conditions; its layers are varied, with its own heads and with a single head that is
            as wide as the model.
        hops: the values of D.
        offsets: the depths, as the number of layers above (or, if negative, below) the number that theory asks for.
        masks: the values of `causal` to train.
        seeds: the seeds of every condition.
        more: further seeds of the conditions with a causal mask, many heads, and fewer layers than theory asks for.
        of: the values of D that have these further seeds.
    """

    recipe: hs.Recipe
    hops: tuple[int, ...] = tuple(range(1, 9))
    offsets: tuple[int, ...] = (-1, 0, 1)
    masks: tuple[bool, ...] = (True, False)
    seeds: tuple[int, ...] = tuple(range(2000, 2006))
    more: tuple[int, ...] = tuple(range(2006, 2012))
    of: tuple[int, ...] = tuple(range(2, 8))

    @property
    def series(self) -> list[list[hs.Setup]]:
        """The conditions, as a list for each mask and number of heads; the lists with many heads come first."""
        one_head = replace(self.recipe, heads=1, head_dim=None)
        return [self._series(causal, recipe) for recipe in (self.recipe, one_head) for causal in self.masks]

    def _series(self, causal: bool, recipe: hs.Recipe) -> list[hs.Setup]:
        heads = "one-head" if recipe.heads == 1 else "many-heads"
        found = []
        for hops in self.hops:
            problem = hs.RetrievalProblem(hops=hops, causal=causal)
            least = hs.theory.minimum_of_hop(problem, hops, one_head=recipe.heads == 1)
            for layers in (least + more for more in self.offsets if least + more > 0):
                name = f"{'causal' if causal else 'no-mask'}/{heads}/{hops}-hops/{layers}-layers"
                further = causal and heads == "many-heads" and layers < least and hops in self.of
                seeds = self.seeds + (self.more if further else ())
                found.append(hs.Setup(name, problem, replace(recipe, layers=layers), seeds))
        return found


def standard(recipe: hs.Recipe) -> DepthLawStudy:
    """Return the study of a recipe with 6,400 steps, because more hops take longer to learn."""
    return DepthLawStudy(replace(recipe, steps=6_400))


def quick(recipe: hs.Recipe) -> DepthLawStudy:
    """Return a tiny version, which only shows that the study runs."""
    return DepthLawStudy(replace(recipe, steps=20), hops=(1, 2), masks=(True,), seeds=(0,), offsets=(0,))


def run(study: DepthLawStudy, folder: Path, work: Work) -> Conditions:
    """Train the missing runs, one series after another, and return what the seeds of each condition learned."""
    found = [conditions.train(series, folder, work) for series in study.series]
    return Conditions(tuple(condition for series in found for condition in series.conditions))


def kind(condition: Condition) -> str:
    """Return the series of a condition in words: its mask and number of heads."""
    mask = "causal mask" if condition.problem.causal else "no mask"
    return f"{mask}, {'one head' if condition.heads == 1 else f'{condition.heads} heads'}"


def judge(found: Conditions) -> list[Judgement]:
    """Judge each series by the rules above."""
    judgements = []
    for series in dict.fromkeys(map(kind, found.conditions)):
        of_series = [condition for condition in found.conditions if kind(condition) == series]
        judgements.append(_nothing_beyond(series, of_series))
        for hops in sorted({condition.last for condition in of_series}):
            judgements.append(_minimum(series, [condition for condition in of_series if condition.last == hops]))
    return judgements


def _nothing_beyond(series: str, found: Sequence[Condition]) -> Judgement:
    """Judge rule 1."""
    hypothesis = f"{series}: no run learns a hop beyond its depth"
    broken = sum(condition.beyond_theory for condition in found)
    tested = sum(condition.learned_what_they_may for condition in found if _tests(condition, found))
    if not any(condition.seeds for condition in found):
        return Judgement(hypothesis, "not run")
    observed = f"none of {tested} does: at most {clopper_pearson(0, tested)[1]:.0%} would"
    few = "too few runs for which a deeper run learned the hop that they lack layers for"
    return never(hypothesis, f"{broken} runs do" if broken else observed, tested, happened=bool(broken), few=few)


def _tests(condition: Condition, found: Sequence[Condition]) -> bool:
    """Whether the condition has a hop beyond its depth that a deeper condition on the same problem learned."""
    deeper = [other for other in found if other.last == condition.last and other.layers > condition.layers]
    return any(
        condition.needs(hop) > condition.layers and any(other.steps(hop) for other in deeper) for hop in condition.hops
    )


def trained_minimum(found: Sequence[Condition]) -> int | None:
    """Return the least depth of these conditions at which a seed learned all hops, or None if no seed did."""
    return min(
        (condition.layers for condition in found if any(step is not None for step in condition.everything())),
        default=None,
    )


def _minimum(series: str, found: Sequence[Condition]) -> Judgement:
    """Judge rule 2 for one D."""
    hops = found[0].last
    theory = found[0].needs(hops)
    hypothesis = f"{series}, D = {hops}: trained minimum {theory} layers"
    least = trained_minimum(found)
    at_theory = [condition for condition in found if condition.layers == theory and condition.seeds]
    n = sum(len(condition.seeds) for condition in at_theory)
    if not n:
        return Judgement(hypothesis, "not run")
    learned = sum(step is not None for condition in at_theory for step in condition.everything())
    observed = f"{least or 'none of the depths tried'}; at {theory}: {share_in_words(learned, n)}"
    if least is not None and least < theory:
        return Judgement(hypothesis, "refuted", observed, n)
    if learned:
        may = sum(condition.learned_what_they_may for condition in found if condition.layers < theory)
        most = clopper_pearson(0, may)[1]
        observed += f"; none of {may} with less that learned what their depth allows (at most {most:.0%} would)"
        p = fisher(learned, n, 0, may)
        observed += f", p = {p:.2g}"
        few = ""
        if theory > 1 and most >= 0.5:
            few = "too few with less learned what their depth allows"
        elif theory > 1 and p >= 0.05:
            few = "seeds at the theory's depth do not differ from those with less"
        return Judgement(hypothesis, "inconclusive" if few else "confirmed", observed, n, few)
    deeper = [step is not None for condition in found if condition.layers > theory for step in condition.everything()]
    if fisher(sum(deeper), len(deeper), 0, n) < 0.05:
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "too few seeds" if least else "no depth learned all hops")


STUDY = Study(
    "depth",
    "Does the depth that training needs follow the theory's?",
    Conditions,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=lambda study: [condition.name for series in study.series for condition in series],
)
