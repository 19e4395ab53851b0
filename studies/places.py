"""Can places stand in for a layer?

Theory asks for three layers of two hops: one ties the members of pairs, one finds the pair of the symbol asked for, one
the next pair. It takes it that the place of a pair says nothing of whose it is. But a head can look at a place, whoever
stands there. Where `>x1` reads every second member of the other block, a head a place, and finds the place of the pair
that begins with x1, a query that looks at `>x1` through as many heads, each of which looks there only where that place
is its own, brings x2, a layer early. It takes as many heads as there are chains.

Two hops, two layers and, as the control, three, of sixteen heads of eight numbers; two, three and four chains; the
plain recipe with twice its steps, six seeds of each. A hop is learned when its validation loss has been below 0.3: with
two chains, guessing between them costs no more than 0.5. Every model is then asked by what it tells rows apart
(`studies.tools.by_place`), with the rows of either pair moved. (Seen before the rules were written: four seeds with
two chains and two layers, other ones, which have both hops by step 400; `relatives` of `conditional`, whose models go
by place; and `depth`, in which no model of two layers and eight heads learns two hops of four chains.)

Then the same two layers with one head, two, four, eight and thirty-two: how many does it take?

Rules, for each number of chains:

1. Nothing is learned beyond its depth: no model of two layers learns x2. As asked: none does of those that learn x1,
   the upper 95% Clopper-Pearson bound on how often one would is below one half, and one of three layers learns it. Not
   as asked: one does. Else inconclusive.
2. What is learned beyond its depth is done by place: most models of two layers that make the second look-up lose it
   when rows are moved. As asked: the lower 95% Clopper-Pearson bound on the share is above one half. Not as asked: the
   upper one is below. Else inconclusive.
3. With layers enough models go by what rows hold: most of three layers that make the second look-up do not lose it when
   rows are moved. As 2.
4. More heads learn it, and sooner, with two layers. As asked: Spearman's rank correlation of heads and the step of x2,
   never being the last, is negative, p below 5% (by permutation), of all models and of those with fewer than
   the most heads. Not as asked: both are positive so. Else inconclusive.

And over all of them:

5. It takes as many heads as there are chains: no model of two layers and fewer heads than chains learns x2. As asked:
   none does of those that learn x1, and the upper 95% Clopper-Pearson bound on how often one would is below one fifth,
   counted where one with as many heads or more, on as many chains, does. Not as asked: one does. Else inconclusive.

(Rules 4 and 5 were written when the models of sixteen heads were known, and none of the others. Rule 4 was content with
what the most heads do alone. Rule 5 took one that does on any number of chains for a control of all; no verdict hung on
that.)

    python -m studies places results/studies/places
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from studies.tools import arms
from studies.tools.arms import ArmLearned, nothing_beyond
from studies.tools.by_place import MADE, ByPlace, places_of
from studies.tools.judgements import Judgement, falls_with, most_of, never
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work


@dataclass(frozen=True)
class PlacesStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all arms; its layers are varied.
        chains: the numbers of chains N.
        layers: one layer fewer than theory asks for, and as many as it asks for.
        heads: other numbers of heads, with the fewest layers.
        seeds: the seeds of every arm.
    """

    recipe: hs.Recipe
    chains: tuple[int, ...] = (2, 3, 4)
    layers: tuple[int, ...] = (2, 3)
    heads: tuple[int, ...] = (1, 2, 4, 8, 32)
    seeds: tuple[int, ...] = tuple(range(9100, 9106))

    @property
    def arms(self) -> list[hs.Setup]:
        """One arm for each number of chains and of layers, then one for each number of chains and of heads."""
        shapes = [(f"{layers}-layers", replace(self.recipe, layers=layers)) for layers in self.layers]
        name, shallow = shapes[0]
        by_heads = [(f"{name}-{heads}-heads", replace(shallow, heads=heads)) for heads in self.heads]
        return [
            hs.Setup(f"{chains}-chains-{name}", hs.RetrievalProblem(hops=2, chains=chains), recipe, self.seeds)
            for some in (shapes, by_heads)
            for chains in self.chains
            for name, recipe in some
        ]


@dataclass(frozen=True)
class PlacesResult:
    """What was found.

    Attributes:
        arms: what each arm learned.
        places: by what the models tell rows apart.
    """

    arms: tuple[ArmLearned, ...]
    places: tuple[ByPlace, ...]

    @property
    def by_layers(self) -> list[ArmLearned]:
        """The arms with the one number of heads that is trained at several depths."""
        heads = [arm.heads for arm in self.arms if arm.layers >= arm.needs(2)]
        return [arm for arm in self.arms if arm.heads in heads]

    @property
    def shallow(self) -> list[ArmLearned]:
        """The arms with fewer layers than theory asks for, heads rising."""
        return sorted((arm for arm in self.arms if arm.layers < arm.needs(2)), key=lambda arm: arm.heads)

    def of(self, arm: ArmLearned) -> list[ByPlace]:
        """The models of an arm that make the second look-up."""
        return [place for place in self.places if place.model.startswith(f"{arm.name}/") and place.makes(2)]


def standard(recipe: hs.Recipe) -> PlacesStudy:
    """The study of a recipe."""
    longer = replace(
        recipe, steps=2 * recipe.steps, decay_fraction=recipe.decay_fraction / 2
    )  # as many of falling rate
    return PlacesStudy(replace(longer, heads=16, head_dim=8))


def quick(recipe: hs.Recipe) -> PlacesStudy:
    """A tiny version that only shows that the study runs."""
    return PlacesStudy(replace(recipe, steps=20), (2,), heads=(1,), seeds=(0,))


def run(study: PlacesStudy, folder: Path, work: Work) -> PlacesResult:
    """Train what is not trained yet, and test every model."""
    found = arms.train(study.arms, folder, work, to_the_end=True, below=MADE)
    runs = arms.finished(arms.by_seed(study.arms, to_the_end=True), folder / "runs")
    return PlacesResult(found.arms, places_of(runs, folder, work, lambda problem: (1, 2)))


def judge(result: PlacesResult) -> list[Judgement]:
    """Judge by the rules above, for each number of chains."""
    judgements = []
    for chains in dict.fromkeys(arm.problem.chains for arm in result.arms):
        found = [arm for arm in result.by_layers if arm.problem.chains == chains]
        where = counted(chains, "chain")
        judgements.append(nothing_beyond(f"{where}: no model learns a hop beyond its depth", found))
        for arm in found:
            by_place = [one.goes_by_place(2) for one in result.of(arm)]
            if arm.layers < arm.needs(2):
                asked = f"{where}: what is learned beyond its depth is done by place"
                judgements.append(most_of(asked, by_place))
            else:
                asked = f"{where}: with layers enough models go by what rows hold"
                judgements.append(most_of(asked, [not one for one in by_place]))
        shallow = [arm for arm in result.shallow if arm.problem.chains == chains]
        judgements.append(_more_heads(f"{where}: with two layers more heads learn x2, and sooner", shallow))
    return [*judgements, _fewer_heads(result.shallow)]


def _more_heads(asked: str, found: Sequence[ArmLearned]) -> Judgement:
    """Rule 4."""
    models = [(arm.heads, arm.budget + 1 if step is None else step) for arm in found for step in arm.times(2)]
    return falls_with(asked, [model[0] for model in models], [model[1] for model in models], "heads and step")


def _fewer_heads(found: Sequence[ArmLearned]) -> Judgement:
    """Rule 5."""
    asked = "with two layers it takes as many heads as there are chains"
    fewer = [arm for arm in found if arm.heads < arm.problem.chains]
    if not any(arm.seeds for arm in fewer):
        return Judgement(asked, "not run")
    can = {arm.problem.chains for arm in found if arm not in fewer and arm.steps(2)}
    broken = sum(len(arm.steps(2)) for arm in fewer)
    n = sum(len(arm.steps(1)) for arm in fewer if arm.problem.chains in can)
    ours = f"{broken} learn x2 with fewer" if broken else f"none of {n} with fewer that learn x1 learns x2"
    lacking = "" if can else "no model with more heads learned it"
    return never(asked, ours, n, happened=bool(broken), rare=0.2, lacking=lacking)


def table(result: PlacesResult) -> str:
    """Markdown tables: who learned what, then the loss of each model's second look-up, unchanged and with rows
    moved."""
    rows = []
    for place in result.places:
        loss, worst = place.told(2)
        cells = ["-"] * 4
        if worst:
            cells = [f"{worst.loss(2):.2f}", str(worst.fact), str(worst.layer), f"{worst.beside:.2f}"]
        rows.append((place.model, loss, *cells))
    headings = "model", "x2: loss", "rows moved", "pair", "layer", "that of the chain at its place"
    return f"{arms.table(arms.Arms(result.arms))}\n{markdown_table(headings, rows)}"


STUDY = Study(
    "places",
    "Can places stand in for a layer?",
    PlacesResult,
    standard,
    quick,
    run,
    judge,
    table,
    arms=lambda study: [arm.name for arm in study.arms],
)
