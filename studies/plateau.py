"""What ends the plateau? When does each hop emerge if one thing at a time is changed in the plain recipe?

Models of four layers are trained on three hops, with ten seeds per condition and twice the recipe's steps. A seed that
has not learned by then is censored. Two times are compared with those of the unchanged recipe on the same seeds: the
step at which x1 is learned, which ends the plateau, and the step at which all hops are learned. Medians are
Kaplan-Meier medians. If a seed never learned, its time is cut off at the budget, and the reported mean is a lower
bound. A hop is learned when its loss is below two thirds of the loss of averaging the candidates: 0.5 with four chains,
1/3 with two, 0.58 with eight.

Rule, for each change and each of the two times: the change moves the time. Confirmed: the p-value of the log-rank test,
exact by permutation, is below 5% after Holm's correction over all changes and both times. Refuted: it is not below 5%,
every seed of both conditions learned in time, both conditions have eight seeds or more, and the ratio of the mean times
is between 4/5 and 5/4 over its whole 95% interval (Welch's, of the ratio's logarithm). Otherwise inconclusive.

    python -m studies plateau results/studies/plateau
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import hopscope as hs
from hopscope.statistics import holm
from studies.tools import conditions
from studies.tools.conditions import Condition, Conditions
from studies.tools.inference import Times, log_rank, ratio_of_means, share_in_words, survival_median
from studies.tools.judgements import Judgement
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

SAME = 0.8, 1.25
"""Two times count as the same if their ratio is within these bounds, as in tests of bioequivalence."""

LEAST = 8
"""The fewest seeds per condition with which two times can be shown to be the same."""

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
"""The changed fields of the recipe or of the problem, by the name of the change. If K changes, position codes keep
their width."""


@dataclass(frozen=True)
class PlateauStudy:
    """The models to train.

    Attributes:
        recipe: the recipe that is changed.
        hops: D of the unchanged problem.
        changes: the changes to the recipe or the problem, one at a time.
        seeds: the seeds of every condition.
    """

    recipe: hs.Recipe
    hops: int = 3
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: CHANGES)
    seeds: tuple[int, ...] = tuple(range(4000, 4010))

    @property
    def conditions(self) -> list[hs.Setup]:
        """The conditions, the unchanged recipe first."""
        of_recipe = {field.name for field in fields(hs.Recipe)}
        found = []
        for name, change in {BASE: {}, **self.changes}.items():
            recipe = replace(self.recipe, **{key: value for key, value in change.items() if key in of_recipe})
            changed = {key: value for key, value in change.items() if key not in of_recipe}
            problem = hs.RetrievalProblem(**{"hops": self.hops, **changed})
            found.append(hs.Setup(name.replace(" ", "-"), problem, recipe, self.seeds))
        return found


def standard(recipe: hs.Recipe) -> PlateauStudy:
    """Return the study of a recipe with twice its steps, so that slower changes have time to learn."""
    return PlateauStudy(replace(recipe, steps=2 * recipe.steps))


def quick(recipe: hs.Recipe) -> PlateauStudy:
    """Return a tiny version that only shows that the study runs: one hop at two learning rates."""
    changes = {"learning rate/0.003": {"learning_rate": 3e-3}}
    return PlateauStudy(recipe, 1, changes, seeds=(0, 1))


def run(study: PlateauStudy, folder: Path, work: Work) -> Conditions:
    """Train the runs that are missing, and read when each hop was learned."""
    return conditions.train(study.conditions, folder, work)


@dataclass(frozen=True)
class Moved:
    """The effect of one change on one of the two times.

    Attributes:
        condition: the condition of the change.
        hops: `x1` or `all hops`.
        times: the step at which each seed of the condition learned; None if it never did.
        base: the same for each seed of the unchanged recipe.
        ratio: the ratio of the mean times, changed to unchanged and cut off at the budget, with its 95% interval.
        p: the p-value of the log-rank test, after Holm's correction.
    """

    condition: Condition
    hops: str
    times: Times
    base: Times
    ratio: tuple[float, float, float]
    p: float


def compared(found: Conditions) -> list[Moved]:
    """Compare every change with the unchanged recipe. The list is empty while that recipe has no finished seed."""
    base, *changed = found.conditions
    pairs = [
        (condition, hops, times, unchanged)
        for condition in changed
        if condition.seeds and base.seeds
        for hops, times, unchanged in (
            ("x1", condition.times(1), base.times(1)),
            ("all hops", condition.everything(), base.everything()),
        )
    ]
    raw = [log_rank(times, condition.budget, other, base.budget) for condition, _, times, other in pairs]
    planned = 2 * (len(found.conditions) - 1)  # also counts conditions that have not run yet
    p_values = holm([*raw, *[1.0] * (planned - len(raw))])[: len(raw)]
    return [
        Moved(condition, hops, times, other, ratio_of_means(times, other, base.budget), p)
        for (condition, hops, times, other), p in zip(pairs, p_values, strict=True)
    ]


def judge(found: Conditions) -> list[Judgement]:
    """Judge by the rule in the module's docstring, with two judgements for each change."""
    base, *changed = found.conditions
    effects = {(effect.condition.name, effect.hops): effect for effect in compared(found)}
    return [
        _judge(
            effects.get((condition.name, hops)),
            f"{condition.name} moves the time of {hops}",
            condition.finished and base.finished,
        )
        for condition in changed
        for hops in ("x1", "all hops")
    ]


def _judge(moved: Moved | None, hypothesis: str, finished: bool) -> Judgement:
    if moved is None:
        return Judgement(hypothesis, "not run")
    ratio, low, high = moved.ratio
    learned, n = sum(time is not None for time in moved.times), len(moved.times)
    observed = (
        f"{_bound(moved)}{ratio:.2f} times as long ({low:.2f} to {high:.2f}), p = {moved.p:.2g}; "
        f"{share_in_words(learned, n)} learned"
    )
    if not finished:
        return Judgement(hypothesis, "inconclusive", observed, n, "seeds are missing")
    if moved.p < 0.05:
        return Judgement(hypothesis, "confirmed", observed, n)
    if not learned or all(time is None for time in moved.base):
        return Judgement(hypothesis, "inconclusive", observed, n, "one of the two never learned")
    if SAME[0] <= low and high <= SAME[1] and min(n, len(moved.base)) >= LEAST:
        if None in moved.times or None in moved.base:
            return Judgement(hypothesis, "inconclusive", observed, n, "not every seed learned in time")
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "too few seeds to tell")


def _bound(moved: Moved) -> str:
    """Return words that say how a ratio bounds the true one, if times of seeds that never learned are cut off."""
    late, base = None in moved.times, None in moved.base
    return "about " if late and base else "at least " if late else "at most " if base else ""


def table(found: Conditions) -> str:
    """Return a Markdown table of medians and ratios, with a row for each condition."""
    effects = {(effect.condition.name, effect.hops): effect for effect in compared(found)}
    rows = []
    for condition in found.conditions:
        if not condition.seeds:
            rows.append([condition.name, "not run", *["-"] * 4])
            continue
        learned = sum(step is not None for step in condition.everything())
        medians = [
            _median(survival_median(times, condition.budget)) for times in (condition.times(1), condition.everything())
        ]
        ratios = [_ratio(effects.get((condition.name, hops))) for hops in ("x1", "all hops")]
        rows.append([condition.name, share_in_words(learned, len(condition.seeds)), *medians, *ratios])
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
    Conditions,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=conditions.names,
)
