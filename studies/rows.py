"""Does one head per row save a layer, and never two?

If a layer has as many heads as a block has rows, then by theory a position can attend to any row of a block if it
shares a piece of information with one of the rows (Theorem 7 of docs/theory.md). Under a causal mask, this saves one
layer: three hops need two layers, and four hops need three. Models with 32 heads of eight numbers are trained on two
chains, by the plain recipe with twice its steps and six seeds per condition. Three hops are trained with two layers
and, as the control, with three; four hops are trained with two, three and four layers. A hop is learned once its
validation loss is below 0.3; choosing between two chains at random costs 0.5.

Rules:

1. For three hops and for four hops: one layer is saved. Confirmed: a model with one layer fewer than Assumption 1 needs
   learns the last hop. Refuted: no such model does, the upper 95% Clopper-Pearson bound on the share that would is
   below one fifth, and a model with as many layers as Assumption 1 needs does. The bound counts only models that
   learned the hop before. Otherwise inconclusive.
2. Two layers are never saved: no model learns a hop with fewer layers than one head per row needs. Confirmed: no model
   does, the upper 95% Clopper-Pearson bound on the share that would is below one half, and a model with enough layers
   learns the last hop. The bound counts only models that learned every hop for which they have enough layers. Refuted:
   a model learns such a hop. Otherwise inconclusive.
3. The saving is position-based: most models that answer a hop with fewer layers than Assumption 1 needs lose such a hop
   when rows are moved (`studies.tools.position_based`). Confirmed: the lower 95% Clopper-Pearson bound on the share is
   above one half. Refuted: the upper bound is below one half. Otherwise inconclusive.

    python -m studies rows results/studies/rows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import clopper_pearson
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement, at_all, most_of, never
from studies.tools.position_based import LEARNED, PositionTest, position_tests
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

HALF = 0.5
"""Rule 2 is confirmed only if the upper 95% bound on the share of models is below this."""

SELDOM = 0.2
"""Rule 1 is refuted only if the upper 95% bound on the share of models is below this."""


@dataclass(frozen=True)
class RowsStudy:
    """The models to train.

    Attributes:
        recipe: the recipe on which all conditions are based.
        chains: N, which is also the number of rows in a block.
        shapes: the number of hops and of layers of each condition.
        seeds: the seeds of every condition.
    """

    recipe: hs.Recipe
    chains: int = 2
    shapes: tuple[tuple[int, int], ...] = ((3, 2), (3, 3), (4, 2), (4, 3), (4, 4))
    seeds: tuple[int, ...] = tuple(range(9200, 9206))

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each shape."""
        return [
            hs.Setup(
                f"{counted(hops, 'hop')}-{counted(layers, 'layer')}".replace(" ", "-"),
                hs.RetrievalProblem(hops=hops, chains=self.chains),
                replace(self.recipe, layers=layers),
                self.seeds,
            )
            for hops, layers in self.shapes
        ]


@dataclass(frozen=True)
class RowsResult(Conditions):
    """The results of the study.

    Attributes:
        conditions: what each condition learned.
        places: the position tests of the models.
    """

    places: tuple[PositionTest, ...]

    def early(self) -> list[tuple[PositionTest, list[int]]]:
        """Return the models that answer hops with fewer layers than Assumption 1 needs, each with these hops."""
        found = []
        for condition in self.conditions:
            early = [hop for hop in condition.hops if condition.needs(hop) > condition.layers]
            for test in self.places:
                if test.model.startswith(f"{condition.name}/") and any(map(test.learned, early)):
                    found.append((test, [hop for hop in early if test.learned(hop)]))
        return found


def standard(recipe: hs.Recipe) -> RowsStudy:
    """Return the study of a recipe with twice its steps, so that slower conditions have time to learn."""
    return RowsStudy(
        replace(recipe, steps=2 * recipe.steps, decay_fraction=recipe.decay_fraction / 2, heads=32, head_dim=8)
    )


def quick(recipe: hs.Recipe) -> RowsStudy:
    """Return a tiny version that only shows that the study runs."""
    return RowsStudy(replace(recipe, steps=20), shapes=((3, 2), (3, 3)), seeds=(0,))


def run(study: RowsStudy, folder: Path, work: Work) -> RowsResult:
    """Train the models that are missing, and test every model.

    Runs continue while the learning rate decays, because this study counts a hop as learned only at a lower loss.
    """
    found = conditions.train(study.conditions, folder, work, to_the_end=True, below=LEARNED)
    runs = conditions.finished(conditions.by_seed(study.conditions, to_the_end=True), folder / "runs")
    return RowsResult(found.conditions, position_tests(runs, folder, work, lambda problem: range(1, problem.hops + 1)))


def judge(found: RowsResult) -> list[Judgement]:
    """Judge by the rules in the module's docstring."""
    hops = sorted({condition.last for condition in found.conditions})
    return [
        *(_saved([condition for condition in found.conditions if condition.last == last]) for last in hops),
        _never_two(found),
        _position_based(found),
    ]


def _by_row(condition: Condition, hop: int) -> int:
    """Return the number of layers that a hop needs with one head per row."""
    return condition.needs(hop, head_a_row=True)


def _saved(found: list[Condition]) -> Judgement:
    """Judge one number of hops by rule 1."""
    last = found[0].last
    hypothesis = f"with one head per row, {counted(last, 'hop')} are answered a layer early"
    fewer = [condition for condition in found if _by_row(condition, last) <= condition.layers < condition.needs(last)]
    n = sum(len(condition.seeds) for condition in fewer)
    if not n:
        return Judgement(hypothesis, "not run")
    learned, before = (sum(len(condition.steps(hop)) for condition in fewer) for hop in (last, last - 1))
    control = any(condition.steps(last) for condition in found if condition.layers >= condition.needs(last))
    lacking = "" if control else "with enough layers none learned it either"
    observed = share_in_words(learned, n)
    if not learned:
        n, most = before, clopper_pearson(0, before)[1]
        observed += f"; of {n} that learned x{last - 1}, at most {most:.0%} would"
    return at_all(hypothesis, observed, n, happened=bool(learned), rare=SELDOM, lacking=lacking)


def _never_two(found: Conditions) -> Judgement:
    """Judge by rule 2."""
    hypothesis = "no hop is learned with fewer layers than one head per row needs, and fewer than half would learn one"
    below = [condition for condition in found.conditions if condition.layers < _by_row(condition, condition.last)]
    if not any(condition.seeds for condition in below):
        return Judgement(hypothesis, "not run")
    broken = sum(
        condition.learned_any(hop for hop in condition.hops if _by_row(condition, hop) > condition.layers)
        for condition in found.conditions
    )
    n = sum(
        condition.learned_all(hop for hop in condition.hops if _by_row(condition, hop) <= condition.layers)
        for condition in below
    )
    none = f"none of {n} models that learned what this allows (at most {clopper_pearson(0, n)[1]:.0%} would)"
    observed = f"{broken} models do" if broken else none
    deeper = any(
        condition.steps(condition.last)
        for condition in found.conditions
        if condition not in below and condition.last == below[0].last
    )
    lacking = "" if deeper else "no deeper run learned it either"
    return never(hypothesis, observed, n, happened=bool(broken), rare=HALF, lacking=lacking)


def _position_based(found: RowsResult) -> Judgement:
    """Judge by rule 3."""
    models = [any(map(test.is_position_based, hops)) for test, hops in found.early()]
    return most_of("what is learned a layer early is position-based", models)


def table(found: RowsResult) -> str:
    """Return Markdown tables of the hops learned, and of the models that answered a hop a layer early."""
    rows = []
    for test, hops in found.early():
        losses = ", ".join(f"{test.loss(hop):.3f}" for hop in hops)
        moved = ", ".join(f"{test.loss(hop) + test.rise(hop):.2f}" for hop in hops)
        rows.append((test.model, ", ".join(f"x{hop}" for hop in hops), losses, moved))
    early = markdown_table(("model", "learned early", "loss", "highest with rows moved"), rows)
    return f"{conditions.table(found)}\n{early}"


STUDY = Study(
    "rows",
    "Does one head per row save a layer, and never two?",
    RowsResult,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=conditions.names,
)
