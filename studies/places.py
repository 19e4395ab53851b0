"""Can positions replace a layer?

By theory, two hops need three layers: one layer combines the members of each pair, one finds the pair that begins with
the query's symbol, and one finds the next pair. The theory assumes that the position of a pair does not tell which
chain the pair belongs to. But a head can attend to a position, whichever symbol is there. Suppose that `>x1` reads the
second member of every pair in the other block, with one head per position, and finds the position of the pair that
begins with x1. The query then attends to `>x1` through as many heads, each only if its position is the right one, and
reads x2 a layer early. That takes as many heads as there are chains.

Models are trained on two hops with two, three and four chains. They have two layers or, as the control, three, each
with sixteen heads of eight numbers. The recipe is the plain one with twice its steps, and each condition has six seeds.
A hop is learned once its validation loss is below 0.3; choosing between two chains at random costs 0.5. The study then
measures whether a model is position-based (`studies.tools.position_based`), with the rows of either pair moved. Models
of two layers are also trained with 1, 2, 4, 8 and 32 heads, to see how many heads are needed.

Rules, for each number of chains:

1. No hop is learned beyond its depth: no model with two layers learns x2. Confirmed: no model with two layers that
   learns x1 learns x2, the upper 95% Clopper-Pearson bound on the share that would is below one half, and a model with
   three layers learns x2. Refuted: a model with two layers learns x2. Otherwise inconclusive.
2. What is learned beyond its depth is position-based: most models with two layers that answer the second hop lose it
   when rows are moved. Confirmed: the lower 95% Clopper-Pearson bound on their share is above one half. Refuted: the
   upper bound is below one half. Otherwise inconclusive.
3. With enough layers, models are content-based: most models with three layers that answer the second hop keep it when
   rows are moved. This rule is judged like rule 2.
4. With two layers, models with more heads learn x2, and sooner. Confirmed: Spearman's rank correlation between the
   number of heads and the step of x2 is negative, with p below 5% by permutation, over all models and also without the
   models with the most heads. Models that never learn x2 count as last. Refuted: both correlations are positive, with p
   below 5%. Otherwise inconclusive.

And over all numbers of chains:

5. With two layers, x2 takes at least as many heads as chains: no model with fewer heads than chains learns x2.
   Confirmed: no such model that learns x1 learns x2, and the upper 95% Clopper-Pearson bound on the share that would is
   below one fifth. Only numbers of chains at which a model with enough heads learns x2 count. Refuted: such a model
   learns x2. Otherwise inconclusive.

    python -m studies places results/studies/places
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from studies.tools import conditions
from studies.tools.conditions import Condition, nothing_beyond
from studies.tools.judgements import Judgement, falls_with, most_of, never
from studies.tools.position_based import LEARNED, PositionTest, position_tests
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work


@dataclass(frozen=True)
class PlacesStudy:
    """The models to train.

    Attributes:
        recipe: the recipe on which all conditions are based.
        chains: the numbers of chains N.
        layers: the numbers of layers: one fewer than theory needs, and as many as it needs.
        heads: further numbers of heads, for models with the fewest layers.
        seeds: the seeds of every condition.
    """

    recipe: hs.Recipe
    chains: tuple[int, ...] = (2, 3, 4)
    layers: tuple[int, ...] = (2, 3)
    heads: tuple[int, ...] = (1, 2, 4, 8, 32)
    seeds: tuple[int, ...] = tuple(range(9100, 9106))

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each number of chains and of layers, then one for each number of chains and of heads."""
        shapes = [(f"{layers}-layers", replace(self.recipe, layers=layers)) for layers in self.layers]
        name, shallow = shapes[0]
        by_heads = [(f"{name}-{heads}-heads", replace(shallow, heads=heads)) for heads in self.heads]
        return [
            hs.Setup(f"{chains}-chains-{name}", hs.RetrievalProblem(hops=2, chains=chains), recipe, self.seeds)
            for group in (shapes, by_heads)
            for chains in self.chains
            for name, recipe in group
        ]


@dataclass(frozen=True)
class PlacesResult:
    """The results of the study.

    Attributes:
        conditions: what each condition learned.
        places: the position tests of the models.
    """

    conditions: tuple[Condition, ...]
    places: tuple[PositionTest, ...]

    @property
    def by_layers(self) -> list[Condition]:
        """The conditions with the number of heads that is trained at every depth."""
        heads = [condition.heads for condition in self.conditions if condition.layers >= condition.needs(2)]
        return [condition for condition in self.conditions if condition.heads in heads]

    @property
    def shallow(self) -> list[Condition]:
        """The conditions with fewer layers than theory needs, in the order of their heads."""
        return sorted(
            (condition for condition in self.conditions if condition.layers < condition.needs(2)),
            key=lambda condition: condition.heads,
        )

    def of(self, condition: Condition) -> list[PositionTest]:
        """Return the position tests of a condition's models that answer the second hop."""
        return [place for place in self.places if place.model.startswith(f"{condition.name}/") and place.learned(2)]


def standard(recipe: hs.Recipe) -> PlacesStudy:
    """Return the study of a recipe."""
    longer = replace(recipe, steps=2 * recipe.steps, decay_fraction=recipe.decay_fraction / 2)  # as many steps of decay
    return PlacesStudy(replace(longer, heads=16, head_dim=8))


def quick(recipe: hs.Recipe) -> PlacesStudy:
    """Return a tiny version that only shows that the study runs."""
    return PlacesStudy(replace(recipe, steps=20), (2,), heads=(1,), seeds=(0,))


def run(study: PlacesStudy, folder: Path, work: Work) -> PlacesResult:
    """Train the models that are missing, and test every model."""
    found = conditions.train(study.conditions, folder, work, to_the_end=True, below=LEARNED)
    runs = conditions.finished(conditions.by_seed(study.conditions, to_the_end=True), folder / "runs")
    return PlacesResult(found.conditions, position_tests(runs, folder, work, lambda problem: (1, 2)))


def judge(result: PlacesResult) -> list[Judgement]:
    """Judge by the rules in the module's docstring."""
    judgements = []
    for chains in dict.fromkeys(condition.problem.chains for condition in result.conditions):
        found = [condition for condition in result.by_layers if condition.problem.chains == chains]
        where = counted(chains, "chain")
        judgements.append(nothing_beyond(f"{where}: no model learns a hop beyond its depth", found))
        for condition in found:
            position_based = [test.is_position_based(2) for test in result.of(condition)]
            if condition.layers < condition.needs(2):
                hypothesis = f"{where}: what is learned beyond its depth is position-based"
                judgements.append(most_of(hypothesis, position_based))
            else:
                hypothesis = f"{where}: with enough layers, models are content-based"
                judgements.append(most_of(hypothesis, [not is_so for is_so in position_based]))
        shallow = [condition for condition in result.shallow if condition.problem.chains == chains]
        hypothesis = f"{where}: with two layers, models with more heads learn x2, and sooner"
        judgements.append(_more_heads(hypothesis, shallow))
    return [*judgements, _fewer_heads(result.shallow)]


def _more_heads(hypothesis: str, found: Sequence[Condition]) -> Judgement:
    """Judge by rule 4."""
    models = [
        (condition.heads, condition.budget + 1 if step is None else step)
        for condition in found
        for step in condition.times(2)
    ]
    return falls_with(hypothesis, [model[0] for model in models], [model[1] for model in models], "heads and step")


def _fewer_heads(found: Sequence[Condition]) -> Judgement:
    """Judge by rule 5."""
    hypothesis = "with two layers, x2 takes at least as many heads as chains"
    fewer = [condition for condition in found if condition.heads < condition.problem.chains]
    if not any(condition.seeds for condition in fewer):
        return Judgement(hypothesis, "not run")
    can = {condition.problem.chains for condition in found if condition not in fewer and condition.steps(2)}
    broken = sum(len(condition.steps(2)) for condition in fewer)
    n = sum(len(condition.steps(1)) for condition in fewer if condition.problem.chains in can)
    observed = f"{broken} with fewer learn x2" if broken else f"of {n} with fewer that learn x1, none learns x2"
    lacking = "" if can else "no model with more heads learned it"
    return never(hypothesis, observed, n, happened=bool(broken), rare=0.2, lacking=lacking)


def table(result: PlacesResult) -> str:
    """Return Markdown tables of the hops learned, and of each model's loss of x2, unchanged and with rows moved."""
    rows = []
    for place in result.places:
        cells = ["-"] * 4
        if worst := place.worst(2):
            cells = [f"{worst.loss(2):.2f}", str(worst.fact), str(worst.layer), f"{worst.as_next_chain:.2f}"]
        rows.append((place.model, place.loss_in_words(2), *cells))
    headings = "model", "x2: loss", "rows moved", "pair", "layer", "loss against the next chain"
    return f"{conditions.table(conditions.Conditions(result.conditions))}\n{markdown_table(headings, rows)}"


STUDY = Study(
    "places",
    "Can positions replace a layer?",
    PlacesResult,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=conditions.names,
)
