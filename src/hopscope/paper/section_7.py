"""Section 7: training by depth, with and without the implicit curriculum (IC); Figure 4 and claims C3 to C5.

For each formulation and number of layers an ensemble is trained.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.paper.claims import Finding, Verdict
from hopscope.paper.groups import Group, read_summary, write_summary
from hopscope.paper.judging import counted
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.studies.statistics import clopper_pearson
from hopscope.studies.work import Work
from hopscope.theory.depth import depths
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

if TYPE_CHECKING:
    from hopscope.training.many import Then

FAILED = 0.7
"""Training failed when the final validation loss stays above this (Section 7.2)."""

RARE = 0.10
"""What happens less often than this, at 95%, counts as never (C3), and its complement as always (C5)."""

ENOUGH_RUNS = 20
"""From so many runs on, hops that are learned as often count as equally hard (C4)."""


@dataclass(frozen=True)
class DepthStudy:
    """What is trained.

    Attributes:
        scale: the preset's name.
        recipe: of every run; its `layers` are varied.
        layers: the depths.
        hops: D with the implicit curriculum.
        plain_hops: D without.
        seeds: one model each, with the implicit curriculum.
        plain_seeds: likewise without.
        seeds_at_minimum: in place of `seeds` at the least depth that can learn every hop, floor(log2 D) + 2: nothing
            can be done there in more than one place, and whether training finds it is a lottery. Empty for `seeds`.
        followed: the depth whose runs with the implicit curriculum keep checkpoints, for circuits and emergence;
            `None` for none.
        seeds_followed: in place of `seeds` at that depth. Empty for `seeds`.
        checkpoint_every: steps between these.
    """

    scale: str
    recipe: Recipe
    layers: tuple[int, ...]
    hops: int
    plain_hops: int
    seeds: tuple[int, ...]
    plain_seeds: tuple[int, ...]
    seeds_at_minimum: tuple[int, ...] = ()
    followed: int | None = None
    seeds_followed: tuple[int, ...] = ()
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        if self.recipe.steps < self.recipe.log_every:  # Figure 4 is drawn from the rows at its multiples
            raise InputError(
                f"a study by depth needs steps of at least log_every ({self.recipe.log_every}), got "
                f"{self.recipe.steps}; log more often"
            )

    def setups(self) -> list[Setup]:
        """All runs, of each formulation and depth."""
        return [run for curriculum in (True, False) for layers in self.layers for run in self.runs(curriculum, layers)]

    def runs(self, curriculum: bool, layers: int) -> list[Setup]:
        """The runs of one formulation and depth: one, or, where a run ends when it has learned, one a seed.

        In one run the first to learn would have to wait for the last.
        """
        if not self.seeds_at(curriculum, layers):
            return []
        whole = self.setup(curriculum, layers)
        if self.recipe.schedule != "when-learned":
            return [whole]
        return [replace(whole, name=f"{whole.name}-seed-{seed}", seeds=(seed,)) for seed in whole.seeds]

    def setup(self, curriculum: bool, layers: int) -> Setup:
        """The ensemble of one formulation and depth."""
        problem = RetrievalProblem(hops=self.hops if curriculum else self.plain_hops, curriculum=curriculum)
        recipe = replace(self.recipe, layers=layers)
        if curriculum and layers == self.followed:
            recipe = replace(recipe, checkpoint_every=self.checkpoint_every, checkpoint_precision="bf16")
        return Setup(run_name(curriculum, layers), problem, recipe, self.seeds_at(curriculum, layers))

    def seeds_at(self, curriculum: bool, layers: int) -> tuple[int, ...]:
        """The seeds of one formulation and depth."""
        if not curriculum:
            return self.plain_seeds
        if layers == self.followed and self.seeds_followed:
            return self.seeds_followed
        at_minimum = layers == depths(self.hops).causal
        return self.seeds_at_minimum if at_minimum and self.seeds_at_minimum else self.seeds


def run_name(curriculum: bool, layers: int) -> str:
    """The run folder of one formulation and depth."""
    return f"{'ic' if curriculum else 'non-ic'}-layers-{layers}"


@dataclass(frozen=True)
class DepthResult:
    """What the study came to.

    Attributes:
        study: what was trained.
        groups: of the runs that are finished; `summary.json` holds them.
        curves: number of layers and metrics of those with the implicit curriculum.
        run: the folder that holds them, relative to the reproduction's.
    """

    study: DepthStudy
    groups: tuple[Group, ...]
    curves: tuple[tuple[int, Metrics], ...]
    run: str


def run(
    study: DepthStudy, folder: Path, work: Work | None = None, *, then: Mapping[str, Then] | None = None
) -> DepthResult:
    """Train what is not trained yet, into `sweep/`, and read what the runs came to; `then` as in `train_all`."""
    (work or Work()).train(study.setups(), folder / "sweep", then)
    return read(study, folder)


def read(study: DepthStudy, folder: Path, *, at: str = "sweep") -> DepthResult:
    """What the finished runs in `folder / at` came to, kept as `folder / "summary.json"`.

    Where no run is left but the summary is, that is read: it suffices for the judges.

    Raises:
        InputError: a run there is damaged, or another than the study's.
    """
    from hopscope.training.many import finished

    runs = finished(study.setups(), folder / at)
    summary = folder / "summary.json"
    if not runs and summary.exists():
        return DepthResult(study, read_summary(summary), (), at)
    groups, curves = [], []
    for curriculum, layers in product((True, False), study.layers):
        some = [runs[one.name] for one in study.runs(curriculum, layers) if one.name in runs]
        if not some:
            continue
        groups.append(Group.of(some, os.path.relpath(some[0].path, folder) if len(some) == 1 else at))
        if curriculum:
            curves.append((layers, Metrics.side_by_side([run.metrics for run in some])))
    if groups:
        write_summary(summary, tuple(groups))
    return DepthResult(study, tuple(groups), tuple(curves), at)


def judge(result: DepthResult) -> list[Finding]:
    """Findings on C3, C4 and C5."""
    with_ic = sorted((group for group in result.groups if group.curriculum), key=lambda group: group.layers)
    without = [group for group in result.groups if not group.curriculum]
    scale = result.study.scale
    found = [
        _curriculum_is_needed(without, with_ic, _scale(scale, without)),
        _later_hops_are_harder(with_ic, _scale(scale, with_ic)),
        _hops_come_in_order(with_ic, _scale(scale, with_ic)),
    ]
    return [replace(finding, run=result.run) if finding.verdict != "not run" else finding for finding in found]


def _curriculum_is_needed(without: Sequence[Group], with_ic: Sequence[Group], scale: str) -> Finding:
    """C3."""
    runs = [(group, model) for group in without for model in range(len(group.seeds))]
    if not runs:
        return Finding("C3", "not run")
    diverged = sum(group.diverged(model) for group, model in runs)
    losses = [loss for group in without for loss in group.final_validation_loss if loss is not None]
    succeeded = sum(loss <= FAILED for loss in losses)
    pairs = sum(_has_control(group, model, with_ic) and not group.diverged(model) for group, model in runs)
    bound = clopper_pearson(0, pairs)[1]
    ours = (
        f"{len(losses) - succeeded} of {len(runs)} runs end above {FAILED}, {succeeded} do not, {diverged} diverged"
        + (f"; the lowest at {min(losses):.3f}" if losses else "")
        + f"; in {counted(pairs, 'pair')} the curriculum learned the same hop"
    )
    interval = f"success without the curriculum: at most {bound:.0%} of runs (95%)"
    if succeeded:
        return Finding("C3", "not reproduced", ours, len(losses), clopper_pearson(succeeded, len(losses)), scale)
    verdict: Verdict = "inconclusive"
    reason = ""
    if not pairs:
        reason = "no positive control: nowhere did the run with the curriculum learn what its twin failed at"
    elif bound >= RARE:
        reason = f"too few pairs: {pairs} leave up to {bound:.0%} of runs to succeed"
    else:
        verdict = "reproduced"
    return Finding("C3", verdict, ours, pairs, interval, scale, reason=reason)


def _has_control(group: Group, model: int, with_ic: Sequence[Group]) -> bool:
    """Whether theory allows the hop at this depth, and the run with the curriculum, its twin, learned it."""
    if group.layers < depths(group.hops).causal:
        return False
    twins = [
        (twin, number)
        for twin in with_ic
        if twin.layers == group.layers
        for number, seed in enumerate(twin.seeds)
        if seed == group.seeds[model]
    ]
    return any(twin.learned(number, group.hops) for twin, number in twins)


def _later_hops_are_harder(groups: Sequence[Group], scale: str) -> Finding:
    """C4."""
    runs = [(group, model) for group in groups for model in range(len(group.seeds)) if not group.diverged(model)]
    if not runs:
        return Finding("C4", "not run")
    hops = range(1, groups[0].hops + 1)
    diverged = sum(len(group.seeds) for group in groups) - len(runs)
    table = [[group.learned(model, hop) for hop in hops] for group, model in runs]
    totals = [sum(row[hop - 1] for row in table) for hop in hops]
    too_early = sum(
        row[hop - 1] and group.layers < depths(hop).causal
        for (group, _), row in zip(runs, table, strict=True)
        for hop in hops
    )
    trend, depth = _trend(table), _needs_depth(runs, hops[-1])
    by_depth = "; ".join(f"{_layers(group.layers)} {_successes(group, hops)}" for group in groups)
    ours = (
        f"runs that learned x1, x2, ...: {by_depth}; {too_early} below the exact minimum; in order p = {trend:.2g} "
        f"(Page), x{hops[-1]} by depth p = {depth:.2g} (Fisher)" + (f"; {diverged} diverged" if diverged else "")
    )
    interval = ", ".join(f"x{hop} {_share(total, len(runs))}" for hop, total in zip(hops, totals, strict=True))
    strictly = all(one > after for one, after in pairwise(totals))
    verdict: Verdict = "inconclusive"
    reason = ""
    if too_early or (not strictly and len(runs) >= ENOUGH_RUNS and all(totals)):
        verdict = "not reproduced"
    elif not all(totals):
        reason = f"x{totals.index(0) + 1} was learned at no depth tried"
    elif not strictly:
        reason = f"too few runs ({len(runs)}) to tell hops apart that are learned as often"
    elif trend >= 0.01 or depth >= 0.05:
        reason = "too few runs for the tests"
    elif scale.startswith("paper") and len(hops) != 5:
        reason = f"the paper's scale has D = 5, this is D = {len(hops)}"
    else:
        verdict = "reproduced"
    return Finding("C4", verdict, ours, len(runs), f"share of runs: {interval}", scale, reason=reason)


def _trend(table: Sequence[Sequence[bool]]) -> float:
    """Page's test that hops are learned ever more rarely; runs are the blocks, ties take mean ranks."""
    from scipy.stats import page_trend_test

    telling = [[not learned for learned in row] for row in table if len(set(row)) > 1]
    if len(telling) < 2 or len(telling[0]) < 3:
        return 1.0
    return float(page_trend_test(telling, method="asymptotic").pvalue)


def _needs_depth(runs: Sequence[tuple[Group, int]], hop: int) -> float:
    """Fisher's exact test that the last hop is learned more often from its exact minimum depth on than below it."""
    import numpy as np
    from scipy.stats import fisher_exact

    deep = [group.learned(model, hop) for group, model in runs if group.layers >= depths(hop).causal]
    shallow = [group.learned(model, hop) for group, model in runs if group.layers < depths(hop).causal]
    table = np.array([[sum(side), len(side) - sum(side)] for side in (deep, shallow)])
    return float(fisher_exact(table, alternative="greater").pvalue)


def _hops_come_in_order(groups: Sequence[Group], scale: str) -> Finding:
    """C5."""
    runs = [crossings for group in groups for crossings in group.crossings]
    telling = [one for one in runs if sum(step is not None for step in one) > 1 or _skips(one)]
    if not runs:
        return Finding("C5", "not run")
    broken = sum(_skips(one) or _turned(one) for one in telling)
    tied = sum(not (_skips(one) or _turned(one)) and _tied(one) for one in telling)
    ordered = len(telling) - broken - tied
    low, high = clopper_pearson(ordered, len(telling))
    ours = (
        f"{ordered} of {counted(len(telling), 'informative run')} in order, {broken} out of order, {tied} unresolved; "
        f"{len(runs) - len(telling)} of {len(runs)} runs learned one hop at most"
    )
    verdict: Verdict = "inconclusive"
    reason = ""
    if broken:
        verdict = "not reproduced"
    elif not telling:
        reason = "no informative run: none learned two hops"
    elif low < 1 - RARE:
        reason = (
            f"{counted(tied, 'run')} unresolved: log more often"
            if clopper_pearson(len(telling), len(telling))[0] >= 1 - RARE
            else f"too few informative runs: of all, {low:.0%} or more may be in order"
        )
    else:
        verdict = "reproduced"
    return Finding("C5", verdict, ours, len(telling), (low, high), scale, reason=reason)


def _skips(crossings: Sequence[int | None]) -> bool:
    """Whether a hop was learned and one before it was not."""
    return any(one is None and after is not None for one, after in pairwise(crossings))


def _turned(crossings: Sequence[int | None]) -> bool:
    reached = [step for step in crossings if step is not None]
    return any(one > after for one, after in pairwise(reached))


def _tied(crossings: Sequence[int | None]) -> bool:
    reached = [step for step in crossings if step is not None]
    return any(one == after for one, after in pairwise(reached))


def _scale(preset: str, groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    layers = sorted(group.layers for group in groups)
    seeds = max(len(group.seeds) for group in groups)
    return f"{preset}: D = {groups[0].hops}, {layers[0]}..{layers[-1]} layers x {counted(seeds, 'seed')}"


def _successes(group: Group, hops: range) -> str:
    models = [model for model in range(len(group.seeds)) if not group.diverged(model)]
    return " ".join(str(sum(group.learned(m, hop) for m in models)) for hop in hops) + f" of {len(models)}"


def _share(successes: int, trials: int) -> str:
    low, high = clopper_pearson(successes, trials)
    return f"{low:.2f} to {high:.2f}"


def _layers(number: int) -> str:
    return counted(number, "layer")
