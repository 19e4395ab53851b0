"""Is a layer saved by a head for every row, and never two?

With as many heads in a layer as a block has rows theory lets a position look at any of a row if it shares something
with one of it (Theorem 7 of docs/theory.md). Under a causal mask that saves one layer: three hops then take two layers
and four take three. Asked with two chains and 32 heads of eight numbers, by the plain recipe with twice its steps, six
seeds each: three hops with two layers and, as the control, with three; four hops with two, three and four. A hop is
learned when its validation loss has been below 0.3: with two chains, guessing between them costs no more than 0.5.

(Known when these rules were written: `places`, in which two hops are learned with two layers; `heads`, in which one hop
is half learned with one; `conditional`, in which functions, for which a head a row saves nothing, are not learned with
a layer less, and relatives, for which it does, are; and that a transformer made by hand answers three hops in two
layers, `tests/theory/test_theory_depth.py`. None of these runs.)

Rules:

1. For three hops and for four: the layer is saved. As asked: a model with one layer fewer than Assumption 1 asks for
   learns the last hop. Not as asked: none does, the upper 95% Clopper-Pearson bound on how often one would is below one
   fifth, of those that learned the hop before, and with the layers that it asks for one does. Else inconclusive.
2. Never two: no model learns a hop with fewer layers than a head a row needs. As asked: none does, the upper 95%
   Clopper-Pearson bound on how often one would is below one half, of those that learned every hop for which they have
   so many, and with layers enough one does. Not as asked: one does. Else inconclusive.
3. It is done by place: of the models that make a look-up with fewer layers than Assumption 1 asks for, most lose one of
   these when rows are moved (`studies.tools.by_place`). As asked: the lower 95% Clopper-Pearson bound on the share
   is above one half. Not as asked: the upper one is below. Else inconclusive. (Written when it was known what the first
   seed of each arm learned, and before any model was asked.)

(Rule 1 counted all models, and rule 2 those that had learned x1: models that stopped at a hop before the one that is
asked about, of which there were five of six and three of six. Both verdicts, not as asked of four hops and as asked of
rule 2, are inconclusive now. Rule 1 was refuted by a bound below one half, by which what one model in five learns is
refuted in a draw of four; six models no longer refute it.)

    python -m studies rows results/studies/rows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import clopper_pearson
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms
from studies.tools.by_place import MADE, ByPlace, places_of
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement, at_all, most_of, never
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

HALF = 0.5
"""What happens less often than this, with 95% confidence, counts as not done (rule 2)."""

SELDOM = 0.2
"""What is learned less often than this, with 95% confidence, counts as not learned (rule 1)."""


@dataclass(frozen=True)
class RowsStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all arms; its layers are varied.
        chains: N, which is also the number of rows in a block.
        shapes: hops and layers of each arm.
        seeds: the seeds of every arm.
    """

    recipe: hs.Recipe
    chains: int = 2
    shapes: tuple[tuple[int, int], ...] = ((3, 2), (3, 3), (4, 2), (4, 3), (4, 4))
    seeds: tuple[int, ...] = tuple(range(9200, 9206))

    @property
    def arms(self) -> list[hs.Setup]:
        """One arm for each shape."""
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
class RowsResult(Arms):
    """What was found.

    Attributes:
        arms: what each arm learned.
        places: by what the models tell rows apart.
    """

    places: tuple[ByPlace, ...]

    def early(self) -> list[tuple[ByPlace, list[int]]]:
        """Models that make look-ups with fewer layers than Assumption 1 asks for, and these look-ups."""
        found = []
        for arm in self.arms:
            for one in self.places:
                if one.model.startswith(f"{arm.name}/"):
                    found.append((one, [hop for hop in arm.hops if arm.needs(hop) > arm.layers and one.makes(hop)]))
        return [(one, hops) for one, hops in found if hops]


def standard(recipe: hs.Recipe) -> RowsStudy:
    """The study of a recipe with twice its steps, to give time to what is slower."""
    return RowsStudy(
        replace(recipe, steps=2 * recipe.steps, decay_fraction=recipe.decay_fraction / 2, heads=32, head_dim=8)
    )


def quick(recipe: hs.Recipe) -> RowsStudy:
    """A tiny version that only shows that the study runs."""
    return RowsStudy(replace(recipe, steps=20), shapes=((3, 2), (3, 3)), seeds=(0,))


def run(study: RowsStudy, folder: Path, work: Work) -> RowsResult:
    """Train what is not trained yet, and test every model.

    Runs go on while the rate falls, since a hop counts as learned here only below a lower loss than elsewhere.
    """
    found = arms.train(study.arms, folder, work, to_the_end=True, below=MADE)
    runs = arms.finished(arms.by_seed(study.arms, to_the_end=True), folder / "runs")
    return RowsResult(found.arms, places_of(runs, folder, work, lambda problem: range(1, problem.hops + 1)))


def judge(found: RowsResult) -> list[Judgement]:
    """Judge by the rules above."""
    hops = sorted({arm.last for arm in found.arms})
    return [
        *(_saved([arm for arm in found.arms if arm.last == last]) for last in hops),
        _never_two(found),
        _by_place(found),
    ]


def _by_row(arm: ArmLearned, hop: int) -> int:
    """The layers that are needed with a head for every row."""
    return arm.needs(hop, head_a_row=True)


def _as_far_as_may_be(arm: ArmLearned) -> int:
    """How many seeds learned every hop that a head for every row allows."""
    may = [_by_row(arm, hop) <= arm.layers for hop in arm.hops]
    return sum(all(step is not None for step, one in zip(seed, may, strict=True) if one) for seed in arm.learned)


def _saved(found: list[ArmLearned]) -> Judgement:
    """Rule 1, for one number of hops."""
    last = found[0].last
    asked = f"with a head a row {counted(last, 'hop')} are answered a layer early"
    fewer = [arm for arm in found if _by_row(arm, last) <= arm.layers < arm.needs(last)]
    n = sum(len(arm.seeds) for arm in fewer)
    if not n:
        return Judgement(asked, "not run")
    learned, before = (sum(len(arm.steps(hop)) for arm in fewer) for hop in (last, last - 1))
    control = any(arm.steps(last) for arm in found if arm.layers >= arm.needs(last))
    lacking = "" if control else "with layers enough none learned it either"
    ours = share_in_words(learned, n)
    if not learned:
        n, most = before, clopper_pearson(0, before)[1]
        ours += f"; of {n} that learned x{last - 1} at most {most:.0%} would"
    return at_all(asked, ours, n, happened=bool(learned), rare=SELDOM, lacking=lacking)


def _never_two(found: Arms) -> Judgement:
    """Rule 2."""
    asked = "no hop is learned with fewer layers than a head a row needs, and in fewer than half one would be"
    below = [arm for arm in found.arms if arm.layers < _by_row(arm, arm.last)]
    if not any(arm.seeds for arm in below):
        return Judgement(asked, "not run")
    broken = sum(
        any(step is not None and _by_row(arm, hop) > arm.layers for step, hop in zip(one, arm.hops, strict=True))
        for arm in found.arms
        for one in arm.learned
    )
    n = sum(_as_far_as_may_be(arm) for arm in below)
    none = f"in none of {n} that learned what that allows (in at most {clopper_pearson(0, n)[1]:.0%} one would be)"
    ours = f"{broken} are" if broken else none
    deeper = any(arm.steps(arm.last) for arm in found.arms if arm not in below and arm.last == below[0].last)
    lacking = "" if deeper else "no deeper run learned it either"
    return never(asked, ours, n, happened=bool(broken), rare=HALF, lacking=lacking)


def _by_place(found: RowsResult) -> Judgement:
    """Rule 3."""
    models = [any(one.goes_by_place(hop) for hop in hops) for one, hops in found.early()]
    return most_of("what is learned a layer early is done by place", models)


def table(found: RowsResult) -> str:
    """Markdown tables: who learned what, then a row for each model that made a look-up a layer early."""
    rows = []
    for one, hops in found.early():
        losses = ", ".join(f"{one.loss(hop):.3f}" for hop in hops)
        moved = ", ".join(f"{one.loss(hop) + one.rise(hop):.2f}" for hop in hops)
        rows.append((one.model, ", ".join(f"x{hop}" for hop in hops), losses, moved))
    early = markdown_table(("model", "made early", "loss", "highest with rows moved"), rows)
    return f"{arms.table(found)}\n{early}"


STUDY = Study(
    "rows",
    "Is a layer saved by a head for every row, and never two?",
    RowsResult,
    standard,
    quick,
    run,
    judge,
    table,
    arms=lambda study: [arm.name for arm in study.arms],
)
