"""Does training find the order of the pairs that needs a layer less?

Four hops deepest first need four layers; with the pair blocks in the order 1,2,4,3 three suffice (Theorem 6 of
docs/theory.md). Asked with three layers in both orders and, as the positive control, with four; and with three and
twice the width and heads. Twenty seeds each, four times the steps of the plain recipe. When no seed had learned x4 with
four layers in the best order either, six layers were added there as its control, before any of them was trained.

Rules:

1. Deepest first, no seed learns x4 with three layers. As asked: none does, and with four layers one does, and the upper
   95% Clopper-Pearson bound on how often one would is below 20%, counted over seeds that learned every hop for which
   they have layers enough. Not as asked: one does. Else inconclusive.
2. In the best order a seed learns x4 with three layers, by the recipe and by the wide one. As asked: one does. Not as
   asked: none does, the upper bound is below 20%, and with more layers in this order one does. Else inconclusive.
3. Theory says how: the circuit of what learned it delivers x4 in the simulator. As asked: so in all models, and the
   lower 95% Clopper-Pearson bound on the share is above one half. Not as asked: a model without a circuit, or with one
   that the simulator does not understand. Else inconclusive, and so where circuits of models that learned it are
   missing.

(Rule 1 counted all seeds, those that learned nothing or diverged too: it was as asked of 20 that had learned nothing,
and is inconclusive now, of 16. Rule 3 was content with three circuits.)

    python -m studies orders results/studies/orders
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.statistics import clopper_pearson, share_in_words
from hopscope.theory.depth import best_order
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms
from studies.tools.circuits import Seen, find_circuits, seen_table
from studies.tools.judgements import Judgement, all_of, at_all, never
from studies.tools.kept import kept
from studies.tools.study import Study

NEVER = 0.2
"""What happens less often than this, with 95% confidence, counts as not found."""


@dataclass(frozen=True)
class OrdersStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all arms; its layers are varied.
        hops: D.
        seeds: the seeds of every arm.
    """

    recipe: Recipe
    hops: int = 4
    seeds: tuple[int, ...] = tuple(range(3000, 3020))

    @property
    def arms(self) -> list[Setup]:
        """The arms by order and layers; the wide one and the deep one last."""
        best = ",".join(map(str, best_order(self.hops)))
        wide = replace(self.recipe, d_model=2 * self.recipe.d_model, heads=2 * self.recipe.heads)
        asked = [(order, 3 + more, self.recipe) for more in (0, 1) for order in (best, "deepest-first")]
        return [
            Setup(
                f"{order.replace(',', '-')}/{layers}-layers{'-wide' if recipe is wide else ''}",
                RetrievalProblem(hops=self.hops, order=order),
                replace(recipe, layers=layers),
                self.seeds,
            )
            for order, layers, recipe in (*asked, (best, 3, wide), (best, 6, self.recipe))
        ]


@dataclass(frozen=True)
class OrdersResult(Arms):
    """What was found.

    Attributes:
        arms: what each arm learned.
        circuits: the circuits of the models with three layers that learned all hops.
    """

    circuits: tuple[Seen, ...]


def standard(recipe: Recipe) -> OrdersStudy:
    """The study of a recipe with four times its steps, and as many steps of falling rate as the recipe has."""
    return OrdersStudy(replace(recipe, steps=4 * recipe.steps, fall=recipe.fall / 4))


def quick(recipe: Recipe) -> OrdersStudy:
    """A tiny version that only shows that the study runs."""
    return OrdersStudy(replace(recipe, steps=20), seeds=(0,))


def run(study: OrdersStudy, folder: Path, work: Work) -> OrdersResult:
    """Train what is not trained yet, find the circuits of models that learned with three layers, and read the
    results."""
    before = kept("orders", folder, OrdersResult) or OrdersResult((), ())
    found = arms.train(study.arms, folder / "runs", work, before.arms, to_the_end=True)
    learned = [run for arm in found.arms if arm.layers == 3 for run in arm.learned_all]
    return OrdersResult(found.arms, find_circuits(learned, folder / "runs", work, known=before.circuits))


def judge(result: OrdersResult) -> list[Judgement]:
    """Judge by the rules above."""
    judgements = []
    for arm in result.arms:
        if arm.layers == 3:
            others = [other for other in result.arms if other.setup.problem == arm.setup.problem and other.layers > 3]
            control = any(other.steps(other.last) for other in others)
            judgements.append(_learns(arm, control))
    learned = sum(len(arm.learned_all) for arm in result.arms if arm.layers == 3)
    return [*judgements, _circuits(result.circuits, learned)]


def _learns(arm: ArmLearned, control: bool) -> Judgement:
    """Rules 1 and 2: a seed learns where theory lets one, and none where it does not."""
    allowed = arm.needs(arm.last) <= arm.layers
    asked = f"{arm.name}: {'a' if allowed else 'no'} seed learns x{arm.last}"
    learned, n = len(arm.steps(arm.last)), len(arm.seeds)
    if not n:
        return Judgement(asked, "not run")
    lacking = "" if control else "no positive control: no seed learned it with more layers"
    ours, few, happened = share_in_words(learned, n), "too few seeds", bool(learned)
    if allowed:
        return at_all(asked, ours, n, happened=happened, rare=NEVER, few=few, lacking=lacking)
    n = arm.learned_what_they_may
    if not happened:
        ours += f"; of {n} that learned what their depth allows at most {clopper_pearson(0, n)[1]:.0%} would"
        few = "too few learned what their depth allows"
    return never(asked, ours, n, happened=happened, rare=NEVER, few=few, lacking=lacking)


def _circuits(circuits: Sequence[Seen], learned: int) -> Judgement:
    """Rule 3, given how many models learned it."""
    asked = "where x4 is learned with three layers, the circuit delivers it by theory"
    if not circuits:
        return Judgement(asked, "not run")
    good = sum(one.delivers for one in circuits)
    n, certified = len(circuits), sum(bool(one.certified) for one in circuits)
    ours = f"{share_in_words(good, n)}; {certified} certified"
    judged = all_of(asked, [one.delivers for one in circuits], good < n, n < learned)
    return replace(judged, ours=ours)


def table(result: OrdersResult) -> str:
    """Markdown tables of who learned what, and by which circuit."""
    return arms.table(result) + ("\n" + seen_table(result.circuits) if result.circuits else "")


STUDY = Study("orders", OrdersResult, standard, quick, run, judge, table, "survival", some_arms=True)
