"""What ends the plateau: when does each hop emerge, if one thing at a time is changed about the plain recipe?

Three hops, four layers, ten seeds an arm, twice the recipe's steps; a seed that has not learned by then is censored.
Two times are compared with those of the unchanged recipe on the same seeds: when x1 is learned, which ends the plateau,
and when all hops are. Medians are Kaplan and Meier's. Where a seed never learned, its time is cut off at the budget,
and the mean time is at least what is told. What counts as learned is a loss below two thirds of what averaging the
candidates gives: 0.5 with four chains, 1/3 with two, 0.58 with eight.

Rule, for each change and each of the two times: does it move the time? As asked: the log-rank test, exact by
permutation, says so at 5%, with Holm's correction over all changes and both times. Not as asked: it does not, every
seed of both arms learned in time, and the mean time is between 4/5 and 5/4 of the unchanged recipe's by the whole of
its 95% interval (Welch's, of the ratio's logarithm), from eight seeds or more on either side. Inconclusive: neither, or
seeds are missing, or nothing was learned in time in one of the two arms, and the test does not tell them apart. (Muon
was added to the changes when 22 of the others had been run; the correction counts it. When all had been run, the exact
test took the place of the asymptotic one, and Welch's interval that of a bootstrap, which is too narrow for ten seeds;
and equality was no longer said of times that are cut off, which makes them alike. No verdict hangs on the latter.)

    python -m studies plateau results/studies/plateau
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import hopscope as hs
from hopscope.statistics import holm
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms
from studies.tools.inference import Times, log_rank, ratio_of_means, share_in_words, survival_median
from studies.tools.judgements import Judgement
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

SAME = 0.8, 1.25
"""Two times count as the same if their ratio lies within these bounds, those of bioequivalence."""

LEAST = 8
"""The fewest seeds on either side by which two times can be shown to be the same."""

BASE = "unchanged"

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "initial weights/gpt2": {"initial": hs.InitialWeights("gpt2", qk_gain=4.0)},
    "initial query and key/gain 1": {"initial": hs.InitialWeights(qk_gain=1.0)},
    "initial query and key/gain 2": {"initial": hs.InitialWeights(qk_gain=2.0)},
    "initial query and key/gain 8": {"initial": hs.InitialWeights(qk_gain=8.0)},
    "batch/16": {"batch_size": 16},
    "batch/32": {"batch_size": 32},
    "batch/64": {"batch_size": 64},
    "batch/256": {"batch_size": 256},
    "learning rate/0.0015": {"learning_rate": 1.5e-3},
    "learning rate/0.003": {"learning_rate": 3e-3},
    "learning rate/0.012": {"learning_rate": 1.2e-2},
    "optimiser/beta2 0.9": {"beta2": 0.9},
    "optimiser/beta2 0.999": {"beta2": 0.999},
    "optimiser/beta1 0": {"beta1": 0.0},
    "optimiser/muon": {"hooks": "studies.muon:Muon"},
    "optimiser/no clipping": {"clip": None},
    "optimiser/warm-up 200": {"warmup": 200},
    "weight decay/0": {"weight_decay": 0.0},
    "weight decay/0.03": {"weight_decay": 0.03},
    "weight decay/0.3": {"weight_decay": 0.3},
    "heads/1 of 64": {"heads": 1, "head_dim": 64},
    "heads/4 of 16": {"heads": 4, "head_dim": 16},
    "heads/16 of 8": {"heads": 16, "head_dim": 8},
    "heads/32 of 8": {"heads": 32, "head_dim": 8},
    "width/32": {"d_model": 32, "head_dim": 8},
    "width/128": {"d_model": 128, "head_dim": 8},
    "MLP/with": {"mlp": True},
    "layers/3": {"layers": 3},
    "layers/6": {"layers": 6},
    "position/base 100": {"base": 100.0},
    "position/base 1000": {"base": 1000.0},
    "position/one code a pair": {"position": "pair"},
    "position/16 numbers": {"position_dim": 16},
    "N/2": {"chains": 2},
    "N/8": {"chains": 8},
    "D/1": {"hops": 1},
    "D/2": {"hops": 2},
    "D/4": {"hops": 4},
    "K/2": {"symbol_dim": 2, "position_dim": 4},
    "K/8": {"symbol_dim": 8, "position_dim": 4},
}
"""By name of the change, the changed fields of the recipe or of the problem. Position codes keep their width where K
changes."""


@dataclass(frozen=True)
class PlateauStudy:
    """What is trained.

    Attributes:
        recipe: the recipe that is changed.
        hops: D of the unchanged problem.
        changes: the changes to the recipe or the problem, one at a time.
        seeds: the seeds of every arm.
    """

    recipe: hs.Recipe
    hops: int = 3
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: CHANGES)
    seeds: tuple[int, ...] = tuple(range(4000, 4010))

    @property
    def arms(self) -> list[hs.Setup]:
        """The arms, the unchanged recipe first."""
        of_recipe = {one.name for one in fields(hs.Recipe)}
        found = []
        for name, change in {BASE: {}, **self.changes}.items():
            recipe = replace(self.recipe, **{key: value for key, value in change.items() if key in of_recipe})
            changed = {key: value for key, value in change.items() if key not in of_recipe}
            problem = hs.RetrievalProblem(**{"hops": self.hops, **changed})
            found.append(hs.Setup(name.replace(" ", "-"), problem, recipe, self.seeds))
        return found


def standard(recipe: hs.Recipe) -> PlateauStudy:
    """The study of a recipe with twice its steps, to give time to slower changes."""
    return PlateauStudy(replace(recipe, steps=2 * recipe.steps))


def quick(recipe: hs.Recipe) -> PlateauStudy:
    """A tiny version that only shows that the study runs: one hop, its first head handed over, at two learning
    rates."""
    changes = {"learning rate/0.003": {"learning_rate": 3e-3}}
    return PlateauStudy(recipe, 1, changes, seeds=(0, 1))


def run(study: PlateauStudy, folder: Path, work: Work) -> Arms:
    """Train what is not trained yet, and read what was learned."""
    return arms.train(study.arms, folder, work)


@dataclass(frozen=True)
class Moved:
    """The effect of one change on one of the two times.

    Attributes:
        arm: the arm of the change.
        what: `x1` or `all hops`.
        times: when each of the arm's seeds learned.
        base: when each seed of the unchanged recipe learned.
        ratio: the ratio of the mean times, changed to unchanged and cut off at the budget, with its 95% interval.
        p: the p-value of the log-rank test, after Holm's correction.
    """

    arm: ArmLearned
    what: str
    times: Times
    base: Times
    ratio: tuple[float, float, float]
    p: float


def compared(found: Arms) -> list[Moved]:
    """Every change compared with the unchanged recipe; empty while that has no finished seed."""
    base, *changed = found.arms
    pairs = [
        (arm, what, times, unchanged)
        for arm in changed
        if arm.seeds and base.seeds
        for what, times, unchanged in (
            ("x1", arm.times(1), base.times(1)),
            ("all hops", arm.everything(), base.everything()),
        )
    ]
    raw = [log_rank(times, arm.budget, other, base.budget) for arm, _, times, other in pairs]
    planned = 2 * (len(found.arms) - 1)  # what is not run yet counts, as it will
    p_values = holm([*raw, *[1.0] * (planned - len(raw))])[: len(raw)]
    return [
        Moved(arm, what, times, other, ratio_of_means(times, other, base.budget), p)
        for (arm, what, times, other), p in zip(pairs, p_values, strict=True)
    ]


def judge(found: Arms) -> list[Judgement]:
    """Judge by the rule above, with two judgements for each change."""
    base, *changed = found.arms
    told = {(one.arm.name, one.what): one for one in compared(found)}
    return [
        _judge(told.get((arm.name, what)), f"{arm.name} moves the time of {what}", arm.finished and base.finished)
        for arm in changed
        for what in ("x1", "all hops")
    ]


def _judge(moved: Moved | None, asked: str, finished: bool) -> Judgement:
    if moved is None:
        return Judgement(asked, "not run")
    ratio, low, high = moved.ratio
    learned, n = sum(time is not None for time in moved.times), len(moved.times)
    ours = (
        f"{_bound(moved)}{ratio:.2f} times as long ({low:.2f} to {high:.2f}), p = {moved.p:.2g}; "
        f"{share_in_words(learned, n)} learned"
    )
    if not finished:
        return Judgement(asked, "inconclusive", ours, n, "seeds are missing")
    if moved.p < 0.05:
        return Judgement(asked, "as asked", ours, n)
    if not learned or all(time is None for time in moved.base):
        return Judgement(asked, "inconclusive", ours, n, "one of the two never learned")
    if SAME[0] <= low and high <= SAME[1] and min(n, len(moved.base)) >= LEAST:
        if None in moved.times or None in moved.base:
            return Judgement(asked, "inconclusive", ours, n, "not every seed learned in time")
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few seeds to tell")


def _bound(moved: Moved) -> str:
    """What a ratio of times is to the true one, where some never learned and their times are cut off."""
    late, base = None in moved.times, None in moved.base
    return "about " if late and base else "at least " if late else "at most " if base else ""


def table(found: Arms) -> str:
    """A Markdown table of medians and ratios, with a row for each arm."""
    told = {(one.arm.name, one.what): one for one in compared(found)}
    rows = []
    for arm in found.arms:
        if not arm.seeds:
            rows.append([arm.name, "not run", *["-"] * 4])
            continue
        learned = sum(step is not None for step in arm.everything())
        medians = [_median(survival_median(times, arm.budget)) for times in (arm.times(1), arm.everything())]
        ratios = [_ratio(told.get((arm.name, what))) for what in ("x1", "all hops")]
        rows.append([arm.name, share_in_words(learned, len(arm.seeds)), *medians, *ratios])
    headings = "changed", "learned all (95%)", "median step of x1", "of all hops", "times as long: x1", "all hops"
    return markdown_table(headings, rows)


def _median(of: Sequence[float | None]) -> str:
    middle, low, high = ("never" if step is None else f"{step:.0f}" for step in of)
    return f"{middle} ({low} to {high})"


def _ratio(moved: Moved | None) -> str:
    if moved is None:
        return "-"
    ratio, low, high = moved.ratio
    return f"{_bound(moved)}{ratio:.2f} ({low:.2f} to {high:.2f}){'*' if moved.p < 0.05 else ''}"


STUDY = Study(
    "plateau",
    "What ends the plateau? One change of the recipe at a time.",
    Arms,
    standard,
    quick,
    run,
    judge,
    table,
    arms=lambda study: [arm.name for arm in study.arms],
)
