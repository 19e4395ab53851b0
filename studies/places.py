"""Can positions replace a layer?

Theory asks for three layers of two hops: one combines the members of pairs, one finds the pair of the query's symbol,
one the next pair. It assumes that the position of a pair says nothing about whose it is. But a head can attend to a
position, whichever symbol is there. If `>x1` reads every second member of the other block, with one head for each
position, and finds the position of the pair that begins with x1, then a query that attends to `>x1` through as many
heads, each only where its position is the right one, reads x2 a layer early. That takes as many heads as there are
chains.

Two hops; two layers and, as the control, three, of sixteen heads of eight numbers; two, three and four chains; the
plain recipe with twice its steps; six seeds of each. A hop is learned when its validation loss has been below 0.3: with
two chains, choosing between them at random costs 0.5. Whether a model is position-based is then measured
(`studies.tools.position_based`), with the rows of either pair moved. Then the same two layers with one head, two, four,
eight and thirty-two: how many does it take?

Rules, for each number of chains:

1. Nothing is learned beyond its depth: no model of two layers learns x2. Confirmed: none does of those that learn x1,
   the upper 95% Clopper-Pearson bound on how often one would is below one half, and one of three layers learns it.
   Refuted: one does. Otherwise inconclusive.
2. What is learned beyond its depth is position-based: most models of two layers that answer the second hop lose it when
   rows are moved. Confirmed: the lower 95% Clopper-Pearson bound on the share is above one half. Refuted: the upper
   bound is below. Otherwise inconclusive.
3. With enough layers models are content-based: most of three layers that answer the second hop do not lose it when rows
   are moved. As 2.
4. More heads learn it, and sooner, with two layers. Confirmed: Spearman's rank correlation of heads and the step of x2,
   never being the last, is negative, p below 5% (by permutation), of all models and of those with fewer than the most
   heads. Refuted: both are positive likewise. Otherwise inconclusive.

And over all of them:

5. It takes as many heads as there are chains: no model of two layers and fewer heads than chains learns x2. Confirmed:
   none does of those that learn x1, and the upper 95% Clopper-Pearson bound on how often one would is below one fifth,
   counted where one with as many heads or more, on as many chains, does. Refuted: one does. Otherwise inconclusive.

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
    """What is trained.

    Attributes:
        recipe: the recipe of all conditions; its layers are varied.
        chains: the numbers of chains N.
        layers: one layer fewer than theory asks for, and as many as it asks for.
        heads: other numbers of heads, with the fewest layers.
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
    """What was found.

    Attributes:
        conditions: what each condition learned.
        places: the position tests of the models.
    """

    conditions: tuple[Condition, ...]
    places: tuple[PositionTest, ...]

    @property
    def by_layers(self) -> list[Condition]:
        """The conditions with the one number of heads that is trained at several depths."""
        heads = [condition.heads for condition in self.conditions if condition.layers >= condition.needs(2)]
        return [condition for condition in self.conditions if condition.heads in heads]

    @property
    def shallow(self) -> list[Condition]:
        """The conditions with fewer layers than theory asks for, heads rising."""
        return sorted(
            (condition for condition in self.conditions if condition.layers < condition.needs(2)),
            key=lambda condition: condition.heads,
        )

    def of(self, condition: Condition) -> list[PositionTest]:
        """The models of a condition that answer the second hop."""
        return [place for place in self.places if place.model.startswith(f"{condition.name}/") and place.learned(2)]


def standard(recipe: hs.Recipe) -> PlacesStudy:
    """The study of a recipe."""
    longer = replace(recipe, steps=2 * recipe.steps, decay_fraction=recipe.decay_fraction / 2)  # as many of decay
    return PlacesStudy(replace(longer, heads=16, head_dim=8))


def quick(recipe: hs.Recipe) -> PlacesStudy:
    """A tiny version that only shows that the study runs."""
    return PlacesStudy(replace(recipe, steps=20), (2,), heads=(1,), seeds=(0,))


def run(study: PlacesStudy, folder: Path, work: Work) -> PlacesResult:
    """Train what is not trained yet, and test every model."""
    found = conditions.train(study.conditions, folder, work, to_the_end=True, below=LEARNED)
    runs = conditions.finished(conditions.by_seed(study.conditions, to_the_end=True), folder / "runs")
    return PlacesResult(found.conditions, position_tests(runs, folder, work, lambda problem: (1, 2)))


def judge(result: PlacesResult) -> list[Judgement]:
    """Judge by the rules above, for each number of chains."""
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
                hypothesis = f"{where}: with enough layers models are content-based"
                judgements.append(most_of(hypothesis, [not is_so for is_so in position_based]))
        shallow = [condition for condition in result.shallow if condition.problem.chains == chains]
        judgements.append(_more_heads(f"{where}: with two layers more heads learn x2, and sooner", shallow))
    return [*judgements, _fewer_heads(result.shallow)]


def _more_heads(hypothesis: str, found: Sequence[Condition]) -> Judgement:
    """Rule 4."""
    models = [
        (condition.heads, condition.budget + 1 if step is None else step)
        for condition in found
        for step in condition.times(2)
    ]
    return falls_with(hypothesis, [model[0] for model in models], [model[1] for model in models], "heads and step")


def _fewer_heads(found: Sequence[Condition]) -> Judgement:
    """Rule 5."""
    hypothesis = "with two layers it takes as many heads as there are chains"
    fewer = [condition for condition in found if condition.heads < condition.problem.chains]
    if not any(condition.seeds for condition in fewer):
        return Judgement(hypothesis, "not run")
    can = {condition.problem.chains for condition in found if condition not in fewer and condition.steps(2)}
    broken = sum(len(condition.steps(2)) for condition in fewer)
    n = sum(len(condition.steps(1)) for condition in fewer if condition.problem.chains in can)
    observed = f"{broken} learn x2 with fewer" if broken else f"none of {n} with fewer that learn x1 learns x2"
    lacking = "" if can else "no model with more heads learned it"
    return never(hypothesis, observed, n, happened=bool(broken), rare=0.2, lacking=lacking)


def table(result: PlacesResult) -> str:
    """Markdown tables: who learned what, then the loss of each model's second hop, unchanged and with rows moved."""
    rows = []
    for place in result.places:
        cells = ["-"] * 4
        if worst := place.worst(2):
            cells = [f"{worst.loss(2):.2f}", str(worst.fact), str(worst.layer), f"{worst.as_next_chain:.2f}"]
        rows.append((place.model, place.loss_in_words(2), *cells))
    headings = "model", "x2: loss", "rows moved", "pair", "layer", "that of the chain at its position"
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
    conditions=lambda study: [condition.name for condition in study.conditions],
)
