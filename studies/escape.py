"""Up to how many chains does reading by position save a layer?

In theory, one head for every row of a block saves a layer, for any number of chains N (Theorem 7). In `places`, trained
models answered two hops in two layers, one fewer than Assumption 1 needs, but less often with more chains. All models
there had the same number of heads, so the number of heads per row fell with N. Here every layer has two heads per row.
Models of two layers are trained on two hops with two, four and eight chains; models of three layers on eight chains are
the control. With one chain nothing is shuffled, so the position of a row identifies it. One layer is then enough for
any D. We try one layer with four heads for D = 1, 2 and 3.

The recipe is that of `places`: heads of width eight and 6,400 steps; a hop is learned once its validation loss has been
below 0.3. There are twenty seeds for two chains, twelve for four, six for eight and for one, and one for the control.
The plan has the cost and what theory says of each condition: docs/studies/plans/2026-11-29-escape.md. A second plan
adds three chains and other numbers of heads per row: docs/studies/plans/2026-11-30-escape-ratios.md. A third adds four
times the steps for four chains: docs/studies/plans/2026-11-30-escape-steps.md.

Rules:

1. One chain, for each D: one layer answers every hop. Confirmed: the lower 95% Clopper-Pearson bound on the share of
   seeds that learn all hops is above one half. Refuted: the upper bound is below one half. Otherwise inconclusive.
2. Not only the number of heads per row counts: at the same number, the more chains (two or more), the fewer seeds learn
   two hops a layer early. Confirmed: Spearman's rank correlation between chains and learned or not is negative, with p
   below 5% (by permutation), over all models and over those with fewer than the most chains. Refuted: both correlations
   are positive, with the same p. Otherwise inconclusive, which is the result if only heads per row count.
3. Eight chains: no model of two layers learns x2. Confirmed: none of those that learn x1 does, the upper 95%
   Clopper-Pearson bound on how often one would is below one half, and a model of three layers learns x2. Refuted: one
   does. Otherwise inconclusive.
4. What is learned a layer early, with two or more chains, is position-based: most of these models lose x2 when rows are
   moved (`studies.tools.position_based`). Confirmed: the lower 95% Clopper-Pearson bound on the share is above one
   half. Refuted: the upper bound is below one half. Otherwise inconclusive.

Rules of the second plan. Rules 5 to 7 compare two conditions by Fisher's exact test, one-sided, with p below 2.5%;
refuted by the same test the other way:

5. Two heads per row: fewer seeds learn two hops a layer early with three chains than with two.
6. Two heads per row: fewer do with four chains than with three.
7. Four heads per row: fewer do with four chains than with two.
8. Two chains: the more heads per row (one, two or four), the more seeds learn two hops a layer early. Like rule 2.
9. One head per row, two chains: most seeds learn two hops a layer early, as theory's line says. Like rule 4.

Rule of the third plan, like rules 5 to 7:

10. Four chains, two heads per row: more seeds learn two hops a layer early with four times the steps.

    python -m studies escape results/studies/escape
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import hopscope as hs
from studies.places import standard as places_standard
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions, nothing_beyond
from studies.tools.judgements import Judgement, falls_with, more_often, most_of
from studies.tools.position_based import LEARNED, PositionTest, position_tests
from studies.tools.records import counted
from studies.tools.study import Study
from studies.tools.work import Work

FIRST_SEED = 9400


class Cell(NamedTuple):
    """A condition: the problem's hops and chains, the model's layers and heads, the number of seeds and the first of
    them, and how many times the usual steps it is trained for."""

    hops: int
    chains: int
    layers: int
    heads: int
    seeds: int
    first_seed: int = FIRST_SEED
    longer: int = 1

    @property
    def name(self) -> str:
        """The name of the condition, for folders."""
        nouns = ("hop", "chain", "layer", "head")
        counts = (counted(number, noun).replace(" ", "-") for number, noun in zip(self, nouns, strict=False))
        return "-".join((*counts, *([f"{self.longer}-times-the-steps"] if self.longer > 1 else [])))

    def setup(self, recipe: hs.Recipe) -> hs.Setup:
        """The setup of the condition, by a recipe; the rate decays over as many steps, however many there are."""
        steps, decay = recipe.steps * self.longer, recipe.decay_fraction / self.longer
        changed = replace(recipe, layers=self.layers, heads=self.heads, steps=steps, decay_fraction=decay)
        problem = hs.RetrievalProblem(hops=self.hops, chains=self.chains)
        return hs.Setup(self.name, problem, changed, tuple(range(self.first_seed, self.first_seed + self.seeds)))


CELLS = (
    *(Cell(hops, 1, 1, 4, 6) for hops in (1, 2, 3)),
    Cell(2, 2, 2, 4, 20),
    Cell(2, 4, 2, 8, 12),
    Cell(2, 8, 2, 16, 6),
    Cell(2, 8, 3, 16, 1),
    Cell(2, 3, 2, 6, 20, 9500),
    Cell(2, 4, 2, 16, 8, 9500),
    Cell(2, 2, 2, 8, 8, 9500),
    Cell(2, 2, 2, 2, 8, 9500),
    Cell(2, 4, 2, 8, 8, 9600, longer=4),
)
"""The conditions that are trained; the last is that of the third plan, and the four before it are of the second."""


@dataclass(frozen=True)
class EscapeStudy:
    """The settings of the study: conditions of one recipe, whose layers and heads are varied."""

    recipe: hs.Recipe
    cells: tuple[Cell, ...] = CELLS

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each cell."""
        return [cell.setup(self.recipe) for cell in self.cells]


@dataclass(frozen=True)
class EscapeResult(Conditions):
    """The result of the study.

    Attributes:
        conditions: the conditions, with what their seeds learned.
        places: the position tests of the models of two or more chains.
    """

    places: tuple[PositionTest, ...]

    @property
    def shallow(self) -> list[Condition]:
        """The conditions with a finished seed and fewer layers than Assumption 1 asks for, by number of chains, without
        those that are trained longer."""
        return [condition for condition in self._too_few_layers if condition.budget == self._usual]

    @property
    def longer(self) -> list[Condition]:
        """The conditions like `shallow` that are trained longer."""
        return [condition for condition in self._too_few_layers if condition.budget > self._usual]

    @property
    def _usual(self) -> int:
        return min(condition.budget for condition in self.conditions)

    @property
    def _too_few_layers(self) -> list[Condition]:
        found = [each for each in self.conditions if each.seeds and each.layers < each.needs(each.last)]
        return sorted(found, key=lambda condition: condition.problem.chains)


def standard(recipe: hs.Recipe) -> EscapeStudy:
    """Return the study of a recipe, with the changes that `places` makes to it."""
    return EscapeStudy(places_standard(recipe).recipe)


def quick(recipe: hs.Recipe) -> EscapeStudy:
    """Return a tiny version, which only shows that the study runs."""
    return EscapeStudy(replace(recipe, steps=20), (Cell(1, 1, 1, 4, 1), Cell(2, 2, 2, 4, 1)))


def run(study: EscapeStudy, folder: Path, work: Work) -> EscapeResult:
    """Train the missing runs, and test whether each model of two or more chains is position-based."""
    found = conditions.train(study.conditions, folder, work, to_the_end=True, below=LEARNED)
    several = [setup for setup in study.conditions if setup.problem.chains > 1]
    runs = conditions.finished(conditions.by_seed(several, to_the_end=True), folder / "runs")
    tests = position_tests(runs, folder, work, lambda problem: range(1, problem.hops + 1))
    return EscapeResult(found.conditions, tests)


def heads_a_row(condition: Condition) -> float:
    """Return the number of heads in a layer for each row of a block."""
    return condition.heads / condition.problem.chains


def share(condition: Condition) -> tuple[int, int]:
    """Return the number of seeds that learned every hop, and the number of finished seeds."""
    return sum(step is not None for step in condition.everything()), len(condition.seeds)


def judge(found: EscapeResult) -> list[Judgement]:
    """Judge by the rules above."""
    judgements = []
    for condition in (each for each in found.conditions if each.problem.chains == 1):
        learned = [step is not None for step in condition.everything()]
        judgements.append(most_of(f"one chain: one layer answers {counted(condition.last, 'hop')}", learned))
    several = [condition for condition in found.shallow if condition.problem.chains > 1 and condition.last == 2]
    planned_first = [each for each in several if heads_a_row(each) == 2 and each.problem.chains != 3]
    models = [(each.problem.chains, step is not None) for each in planned_first for step in each.times(2)]
    hypothesis = "2 heads per row: the more chains, the fewer seeds learn two hops a layer early"
    judgements.append(falls_with(hypothesis, [n for n, _ in models], [yes for _, yes in models], "chains and x2"))
    eight = [condition for condition in found.conditions if condition.problem.chains == 8 and condition.last == 2]
    if eight:
        judgements.append(nothing_beyond("8 chains: no model learns two hops a layer early", eight))
    early = {condition.name for condition in (*several, *found.longer)}
    answering = [test for test in found.places if test.learned(2) and test.model.rsplit("/", 1)[0] in early]
    position_based = [test.is_position_based(2) for test in answering]
    judgements.append(most_of("what is learned a layer early is position-based", position_based))
    usual = [step is not None for each in planned_first if each.problem.chains == 4 for step in each.times(2)]
    longer = [step is not None for each in found.longer for step in each.times(2)]
    hypothesis = "4 chains, 2 heads per row: with four times the steps, more seeds learn two hops a layer early"
    return [*judgements, *_second_plan(several), more_often(hypothesis, longer, usual)]


def _second_plan(several: Sequence[Condition]) -> list[Judgement]:
    """Judge by rules 5 to 9."""
    learned = {
        (condition.problem.chains, heads_a_row(condition)): [step is not None for step in condition.times(2)]
        for condition in several
    }

    def fewer(heads: int, many: int, few: int) -> Judgement:
        hypothesis = (
            f"{heads} heads per row: fewer seeds learn two hops a layer early with {many} chains than with {few}"
        )
        return more_often(hypothesis, learned.get((few, heads), []), learned.get((many, heads), []))

    two = [(heads, not yes) for (chains, heads), models in learned.items() for yes in models if chains == 2]
    return [
        fewer(2, 3, 2),
        fewer(2, 4, 3),
        fewer(4, 4, 2),
        falls_with(
            "2 chains: the more heads per row, the more seeds learn two hops a layer early",
            [heads for heads, _ in two],
            [missed for _, missed in two],
            "heads and not learning x2",
        ),
        most_of("1 head per row, 2 chains: most seeds learn two hops a layer early", learned.get((2, 1), [])),
    ]


STUDY = Study(
    "escape",
    "Up to how many chains does reading by position save a layer?",
    EscapeResult,
    standard,
    quick,
    run,
    judge,
    conditions.table,
    conditions=conditions.names,
)
