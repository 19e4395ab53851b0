"""Does the depth that training needs follow the depth that theory asks for?

Asked for D = 1 ... 8, under a causal mask (theory: floor(log2 D) + 2 layers) and without one (ceil(log3(4D + 1)) with
many heads a layer, floor(log2 D) + 2 with one), at the theory's depth, one layer below and one above, six seeds each;
twelve with many heads under a mask one layer below, for D = 2 ... 7, since of these only those say something that
learned what their depth allows. (Six were added when rule 2 had been made stricter, before any of them ran. Of D = 8
nothing would be learned by more: no depth learned it.)

Rules, for each mask and number of heads:

1. No run learns a hop for which it has too few layers. As asked: none does, and the upper 95% Clopper-Pearson bound on
   how often one would is below 10%, counted over runs with such a hop that learned every hop for which they have layers
   enough, and of which a deeper arm on the same problem, the positive control, learned that hop. Not as asked: one
   does. Else inconclusive.
2. For each D, the trained minimum depth, the least at which a seed learned all hops, is the theory's. As asked: a seed
   learned all at the theory's depth and none with less, of those that learned what their depth allows, of which the
   upper 95% Clopper-Pearson bound on how often one would is below one half, and more at the theory's depth than of
   these (Fisher's exact test, one-sided, p below 5%). Not as asked: one did with less, or none at the theory's depth,
   and more with more layers (by the same test). Else inconclusive.

(Rule 2 was content with one shallower run that learned what its depth allows, and with any deeper one that learned all
where six at the theory's depth had not: that refuted it in a draw of three where one run in six learns all. Then it did
not compare the theory's depth with less, so that one seed of six against none was as asked, which is a draw of five
where one run in six learns all at either. Three verdicts turned by it, all to inconclusive.)

    python -m studies depth results/studies/depth
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import clopper_pearson, fisher
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms, table
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement, never
from studies.tools.study import Study
from studies.tools.work import Work

__all__ = ["STUDY", "DepthLawStudy", "judge", "kind", "quick", "run", "standard", "table", "trained_minimum"]


@dataclass(frozen=True)
class DepthLawStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all arms; its layers are varied, and it is taken with its own heads and with one head as
            wide as the model.
        hops: the numbers of hops D.
        beside: the depths, as layers above (or, negative, below) what theory asks for.
        masks: whether there is a causal mask; each value is trained.
        seeds: the seeds of every arm.
        more: further seeds, of the arms with a causal mask and many heads one layer below the theory's depth.
        of: the numbers of hops of those.
    """

    recipe: hs.Recipe
    hops: tuple[int, ...] = tuple(range(1, 9))
    beside: tuple[int, ...] = (-1, 0, 1)
    masks: tuple[bool, ...] = (True, False)
    seeds: tuple[int, ...] = tuple(range(2000, 2006))
    more: tuple[int, ...] = tuple(range(2006, 2012))
    of: tuple[int, ...] = tuple(range(2, 8))

    @property
    def series(self) -> list[list[hs.Setup]]:
        """The arms in series of one mask and number of heads each, many heads first."""
        one_head = replace(self.recipe, heads=1, head_dim=None)
        return [self._series(causal, recipe) for recipe in (self.recipe, one_head) for causal in self.masks]

    def _series(self, causal: bool, recipe: hs.Recipe) -> list[hs.Setup]:
        heads = "one-head" if recipe.heads == 1 else "many-heads"
        found = []
        for hops in self.hops:
            problem = hs.RetrievalProblem(hops=hops, causal=causal)
            least = hs.theory.minimum_of_hop(problem, hops, one_head=recipe.heads == 1)
            for layers in (least + more for more in self.beside if least + more > 0):
                name = f"{'causal' if causal else 'no-mask'}/{heads}/{hops}-hops/{layers}-layers"
                further = causal and heads == "many-heads" and layers < least and hops in self.of
                seeds = self.seeds + (self.more if further else ())
                found.append(hs.Setup(name, problem, replace(recipe, layers=layers), seeds))
        return found


def standard(recipe: hs.Recipe) -> DepthLawStudy:
    """The study of a recipe with 6,400 steps, since more hops take longer."""
    return DepthLawStudy(replace(recipe, steps=6_400))


def quick(recipe: hs.Recipe) -> DepthLawStudy:
    """A tiny version that only shows that the study runs."""
    return DepthLawStudy(replace(recipe, steps=20), hops=(1, 2), masks=(True,), seeds=(0,), beside=(0,))


def run(study: DepthLawStudy, folder: Path, work: Work) -> Arms:
    """Train what is not trained yet, series after series, and read what was learned."""
    found = [arms.train(series, folder, work) for series in study.series]
    return Arms(tuple(arm for series in found for arm in series.arms))


def kind(arm: ArmLearned) -> str:
    """The series of an arm, in words: its mask and heads."""
    mask = "causal mask" if arm.problem.causal else "no mask"
    return f"{mask}, {'one head' if arm.heads == 1 else f'{arm.heads} heads'}"


def judge(found: Arms) -> list[Judgement]:
    """Judge by the rules above, series by series."""
    judgements = []
    for series in dict.fromkeys(map(kind, found.arms)):
        of_series = [arm for arm in found.arms if kind(arm) == series]
        judgements.append(_nothing_beyond(series, of_series))
        for hops in sorted({arm.last for arm in of_series}):
            judgements.append(_minimum(series, [arm for arm in of_series if arm.last == hops]))
    return judgements


def _nothing_beyond(series: str, found: Sequence[ArmLearned]) -> Judgement:
    """Rule 1."""
    asked = f"{series}: no run learns a hop beyond its depth"
    broken = sum(arm.beyond_theory for arm in found)
    tested = sum(arm.learned_what_they_may for arm in found if _tests(arm, found))
    if not any(arm.seeds for arm in found):
        return Judgement(asked, "not run")
    ours = f"none of {tested} does: at most {clopper_pearson(0, tested)[1]:.0%} would"
    few = "too few runs whose deeper twins learned what they could not"
    return never(asked, f"{broken} runs do" if broken else ours, tested, happened=bool(broken), few=few)


def _tests(arm: ArmLearned, found: Sequence[ArmLearned]) -> bool:
    """Whether the arm has a hop beyond its depth that a deeper arm on the same problem learned."""
    deeper = [other for other in found if other.last == arm.last and other.layers > arm.layers]
    return any(arm.needs(hop) > arm.layers and any(other.steps(hop) for other in deeper) for hop in arm.hops)


def trained_minimum(found: Sequence[ArmLearned]) -> int | None:
    """The least depth of these arms at which a seed learned all hops; None if no seed did."""
    return min((arm.layers for arm in found if any(step is not None for step in arm.everything())), default=None)


def _minimum(series: str, found: Sequence[ArmLearned]) -> Judgement:
    """Rule 2, for one D."""
    hops = found[0].last
    theory = found[0].needs(hops)
    asked = f"{series}, D = {hops}: trained minimum {theory} layers"
    least = trained_minimum(found)
    there = [arm for arm in found if arm.layers == theory and arm.seeds]
    n = sum(len(arm.seeds) for arm in there)
    if not n:
        return Judgement(asked, "not run")
    learned = sum(step is not None for arm in there for step in arm.everything())
    ours = f"{least or 'none of the depths tried'}; at {theory}: {share_in_words(learned, n)}"
    if least is not None and least < theory:
        return Judgement(asked, "not as asked", ours, n)
    if learned:
        may = sum(arm.learned_what_they_may for arm in found if arm.layers < theory)
        most = clopper_pearson(0, may)[1]
        ours += f"; none of {may} with less that learned what their depth allows (at most {most:.0%} would)"
        p = fisher(learned, n, 0, may)
        ours += f", p = {p:.2g}"
        few = ""
        if theory > 1 and most >= 0.5:
            few = "too few with less learned what their depth allows"
        elif theory > 1 and p >= 0.05:
            few = "seeds at the theory's depth are not told from those with less"
        return Judgement(asked, "inconclusive" if few else "as asked", ours, n, few)
    deeper = [step is not None for arm in found if arm.layers > theory for step in arm.everything()]
    if fisher(sum(deeper), len(deeper), 0, n) < 0.05:
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few seeds" if least else "no depth learned all hops")


STUDY = Study(
    "depth",
    "Does the depth that training needs follow the theory's?",
    Arms,
    standard,
    quick,
    run,
    judge,
    table,
    arms=lambda study: [arm.name for series in study.series for arm in series],
)
