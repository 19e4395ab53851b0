"""Can places stand in for a layer?

Theory asks for three layers of two hops: one ties the members of pairs, one finds the pair of the symbol asked for, one
the next pair. It takes it that the place of a pair says nothing of whose it is. But a head can look at a place, whoever
stands there. Where `>x1` reads every second member of the other block, a head a place, and finds the place of the pair
that begins with x1, a query that looks at `>x1` through as many heads, each of which looks there only where that place
is its own, brings x2, a layer early. It takes as many heads as there are chains.

Two hops, two layers and, as the control, three, of sixteen heads of eight numbers; two, three and four chains; the
plain recipe with twice its steps, six seeds of each. A hop is learned when its validation loss has been below 0.3: with
two chains, guessing between them costs no more than 0.5. Every model is then asked by what it tells rows apart
(`hopscope.studies.by_place`), with the rows of either pair moved. (Seen before the rules were written: four seeds with
two chains and two layers, other ones, which have both hops by step 400; `relatives` of `conditional`, whose models go
by place; and `depth`, in which no model of two layers and eight heads learns two hops of four chains.)

Rules, for each number of chains:

1. Nothing is learned beyond its depth: no model of two layers learns x2. As asked: none does of those that learn x1,
   the upper 95% Clopper-Pearson bound on how often one would is below one half, and one of three layers learns it. Not
   as asked: one does. Else inconclusive.
2. What is learned beyond its depth is done by place: most models of two layers that make the second look-up lose it
   when rows are moved. As asked: the lower 95% Clopper-Pearson bound on the share is above one half. Not as asked: the
   upper one is below. Else inconclusive.
3. With layers enough models go by what rows hold: most of three layers that make the second look-up do not lose it when
   rows are moved. As 2.

    hopscope study places results/studies/places
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.studies import arms
from hopscope.studies.arms import ArmLearned, nothing_beyond
from hopscope.studies.by_place import MADE, ByPlace, places_of
from hopscope.studies.judgements import Judgement, most_of
from hopscope.studies.kept import kept
from hopscope.studies.study import Study
from hopscope.studies.work import Work
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup
from hopscope.words import counted


@dataclass(frozen=True)
class PlacesStudy:
    """What is trained.

    Attributes:
        recipe: its layers are varied.
        chains: the N.
        layers: as many as theory asks for, and one fewer.
        seeds: of each.
    """

    recipe: Recipe
    chains: tuple[int, ...] = (2, 3, 4)
    layers: tuple[int, ...] = (2, 3)
    seeds: tuple[int, ...] = tuple(range(9100, 9106))

    @property
    def arms(self) -> list[Setup]:
        """One a number of chains and of layers."""
        return [
            Setup(
                f"{chains}-chains-{layers}-layers",
                RetrievalProblem(hops=2, chains=chains),
                replace(self.recipe, layers=layers),
                self.seeds,
            )
            for chains in self.chains
            for layers in self.layers
        ]


@dataclass(frozen=True)
class PlacesResult:
    """What was seen.

    Attributes:
        arms: what each came to.
        places: by what the models tell rows apart.
    """

    arms: tuple[ArmLearned, ...]
    places: tuple[ByPlace, ...]

    def of(self, arm: ArmLearned) -> list[ByPlace]:
        """The models of an arm that make the second look-up."""
        return [one for one in self.places if one.model.startswith(f"{arm.name}/") and one.makes(2)]


def standard(recipe: Recipe) -> PlacesStudy:
    """The study of a recipe."""
    longer = replace(recipe, steps=2 * recipe.steps, fall=recipe.fall / 2)  # as many to come to rest in
    return PlacesStudy(replace(longer, heads=16, head_dim=8))


def quick(recipe: Recipe) -> PlacesStudy:
    """That it works."""
    return PlacesStudy(replace(recipe, steps=20, held=()), (2,), seeds=(0,))


def run(study: PlacesStudy, folder: Path, work: Work) -> PlacesResult:
    """Train what is not trained yet, and ask every model."""
    before = kept("places", folder, PlacesResult) or PlacesResult((), ())
    runs, setups = folder / "runs", arms.by_seed(study.arms, to_the_end=True)
    arms.train(study.arms, runs, work, before.arms, to_the_end=True)
    found = arms.read(study.arms, runs, before.arms, to_the_end=True, below=MADE)
    return PlacesResult(found.arms, places_of(setups, runs, before.places, work, lambda problem: (1, 2)))


def judge(result: PlacesResult) -> list[Judgement]:
    """By the rules above, for each number of chains."""
    judgements = []
    for chains in dict.fromkeys(arm.setup.problem.chains for arm in result.arms):
        found, where = [arm for arm in result.arms if arm.setup.problem.chains == chains], counted(chains, "chain")
        judgements.append(nothing_beyond(f"{where}: no model learns a hop beyond its depth", found))
        for arm in found:
            by_place = [one.goes_by_place(2) for one in result.of(arm)]
            if arm.layers < arm.needs(2):
                asked = f"{where}: what is learned beyond its depth is done by place"
                judgements.append(most_of(asked, by_place))
            else:
                asked = f"{where}: with layers enough models go by what rows hold"
                judgements.append(most_of(asked, [not one for one in by_place]))
    return judgements


def table(result: PlacesResult) -> str:
    """Who learned what, then a row a model: its second look-up as it is, and where rows are moved."""
    lines = ["| model | x2: loss | rows moved | pair | layer | the next chain's then |", "|---" * 6 + "|"]
    for one in result.places:
        worst = max(one.moved, key=lambda moved: moved.losses[1])
        lines.append(
            f"| {one.model} | {one.losses[1]:.3f} | {worst.losses[1]:.2f} | {worst.fact} | {worst.layer} "
            f"| {worst.next:.2f} |"
        )
    return f"{arms.table(arms.Arms(result.arms))}\n" + "\n".join(lines) + "\n"


STUDY = Study("places", PlacesResult, standard, quick, run, judge, table, "places")
