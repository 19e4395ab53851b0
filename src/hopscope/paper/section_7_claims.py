"""Claims C3 to C5, judged by which hops the models of every depth learned, with and without the implicit curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hopscope.paper.claims import Finding, Verdict
from hopscope.paper.groups import Group
from hopscope.statistics import clopper_pearson, fisher, sign_test
from hopscope.theory.depth import depths
from hopscope.words import counted

FAILED = 0.7
"""Training failed if the final validation loss stays above this (Section 7.2)."""

CLAIMED_HOPS = 3
"""The D at which training without the curriculum is claimed to fail (C3); with one hop there is none to leave out."""

RARE = 0.10
"""What happens less often than this, with 95% confidence, counts as never (C3), and its complement as always (C5)."""

LIKELY = 0.05
"""The p-value below which the last hop likely needs more layers than a run has, and the first does not (C4)."""

SURELY = 0.01
"""The p-value below which hops are surely learned ever more rarely, or one by more runs than the one before (C4)."""


def judge_groups(groups: Sequence[Group], preset: str) -> list[Finding]:
    """Findings on C3, C4 and C5; their scale begins with the name of the preset."""
    with_ic = sorted((group for group in groups if group.curriculum), key=lambda group: group.layers)
    without = [group for group in groups if not group.curriculum]
    return [
        _curriculum_is_needed(without, with_ic, _scale(preset, without)),
        _later_hops_are_harder(with_ic, _scale(preset, with_ic)),
        _hops_come_in_order(with_ic, _scale(preset, with_ic)),
    ]


def _curriculum_is_needed(without: Sequence[Group], with_ic: Sequence[Group], scale: str) -> Finding:
    """Judge C3."""
    asked = [group for group in without if group.hops == CLAIMED_HOPS]
    runs = [(group, model) for group in asked for model in range(len(group.seeds))]
    if not runs:
        why = f"no run without the curriculum at D = {CLAIMED_HOPS}" if without else ""
        return Finding("C3", "not run", reason=why)
    diverged = sum(group.diverged(model) for group, model in runs)
    losses = [loss for group in asked for loss in group.final_validation_loss if loss is not None]
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
    if group.too_shallow(group.hops):
        return False
    twins = [
        (twin, number)
        for twin in with_ic
        if (twin.layers, twin.chains) == (group.layers, group.chains)
        for number, seed in enumerate(twin.seeds)
        if seed == group.seeds[model]
    ]
    return any(twin.learned(number, group.hops) for twin, number in twins)


def _later_hops_are_harder(groups: Sequence[Group], scale: str) -> Finding:
    """Judge C4."""
    runs = [(group, model) for group in groups for model in range(len(group.seeds)) if not group.diverged(model)]
    if not runs:
        return Finding("C4", "not run")
    hops = range(1, groups[0].hops + 1)
    diverged = sum(len(group.seeds) for group in groups) - len(runs)
    table = [[group.learned(model, hop) for hop in hops] for group, model in runs]
    totals = [sum(row[hop - 1] for row in table) for hop in hops]
    learned = [(group, hop) for (group, _), row in zip(runs, table, strict=True) for hop in hops if row[hop - 1]]
    forbidden = sum(group.forbidden(hop) for group, hop in learned)
    too_shallow = sum(group.too_shallow(hop) for group, hop in learned)
    trend, depth, steps = _trend(table), _needs_depth(runs, hops[-1]), _steps(runs, hops)
    shallow = [row for (group, _), row in zip(runs, table, strict=True) if group.too_shallow(hops[-1])]
    first = sign_test([row[0] - row[-1] for row in shallow], "greater")
    by_depth = "; ".join(f"{counted(group.layers, 'layer')} {_successes(group, hops)}" for group in groups)
    ours = (
        f"runs that learned x1, x2, ...: {by_depth}; {forbidden} with t < log3(2D), {too_shallow} below the exact "
        f"minimum; in order p = {trend:.2g} (Page), x{hops[-1]} by depth p = {depth:.2g} (Fisher), x1 and not "
        f"x{hops[-1]} below its depth p = {first:.2g} (sign)" + (f"; {diverged} diverged" if diverged else "")
    )
    interval = ", ".join(f"x{hop} {_share(total, len(runs))}" for hop, total in zip(hops, totals, strict=True))
    tied = [hop for hop, (one, after) in enumerate(pairwise(totals), start=2) if one <= after]
    turned = min((_more_often(table, hop) for hop in hops[1:]), default=1.0)
    verdict: Verdict = "inconclusive"
    reason = ""
    if forbidden or turned < SURELY:
        verdict = "not reproduced"
    elif not all(totals):
        reason = f"x{totals.index(0) + 1} was learned at no depth tried"
    elif tied and totals[tied[0] - 1] == len(runs):
        reason = "every run learned hops that are to be told apart: shallower models are missing"
    elif tied:
        reason = f"x{tied[0]} was learned no more rarely than x{tied[0] - 1}"
    elif trend >= SURELY or depth >= LIKELY:
        reason = "too few runs for the tests"
    elif first >= LIKELY:
        reason = f"with fewer layers than x{hops[-1]} needs too few runs learned x1: one depth may do for both"
    elif steps:
        reason = steps
    elif scale.startswith("paper") and len(hops) != 5:
        reason = f"the paper's scale has D = 5, this is D = {len(hops)}"
    else:
        verdict = "reproduced"
    return Finding("C4", verdict, ours, len(runs), f"share of runs: {interval}", scale, reason=reason)


def _trend(table: Sequence[Sequence[bool]]) -> float:
    """p-value of Page's test that hops are learned ever more rarely; runs are the blocks, ties take mean ranks."""
    from scipy.stats import page_trend_test

    telling = [[not learned for learned in row] for row in table if len(set(row)) > 1]
    if len(telling) < 2 or len(telling[0]) < 3:
        return 1.0
    return float(page_trend_test(telling, method="asymptotic").pvalue)


def _more_often(table: Sequence[Sequence[bool]], hop: int) -> float:
    """p-value of the exact one-sided sign test that a hop is learned by more runs than the one before it."""
    return sign_test([row[hop - 1] - row[hop - 2] for row in table], "greater")


def _needs_depth(runs: Sequence[tuple[Group, int]], hop: int) -> float:
    """p-value of Fisher's exact test that a hop is learned more often from its exact minimum depth on than below it."""
    deep = [group.learned(model, hop) for group, model in runs if not group.too_shallow(hop)]
    shallow = [group.learned(model, hop) for group, model in runs if group.too_shallow(hop)]
    return fisher(sum(deep), len(deep), sum(shallow), len(shallow))


def _steps(runs: Sequence[tuple[Group, int]], hops: Sequence[int]) -> str:
    """Which hop may need no more layers than one before it that theory asks fewer of; empty if none.

    x1 alone may need few layers and all others the same number: each step of theory's ladder must be seen by itself.
    """
    least = {hop: depths(hop).causal for hop in hops}
    for hop in hops[1:]:
        if least[hop] == least[hop - 1]:
            continue
        easier = next(one for one in hops if least[one] == least[hop - 1])
        enough = [(group, model) for group, model in runs if not group.too_shallow(easier)]
        seen = any(group.too_shallow(hop) and group.learned(model, easier) for group, model in enough)
        if not seen or _needs_depth(enough, hop) >= LIKELY:
            return f"too few runs tell whether x{hop} needs more layers than x{easier}"
    return ""


def _hops_come_in_order(groups: Sequence[Group], scale: str) -> Finding:
    """Judge C5."""
    runs = [crossings for group in groups for crossings in group.crossings]
    telling = [run for run in runs if sum(step is not None for step in run) > 1 or _skips(run)]
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
    seeds = sorted({len(group.seeds) for group in groups})
    fewer = f"{seeds[0]} to " if len(seeds) > 1 else ""
    return f"{preset}: D = {groups[0].hops}, {layers[0]}..{layers[-1]} layers x {fewer}{counted(seeds[-1], 'seed')}"


def _successes(group: Group, hops: range) -> str:
    models = [model for model in range(len(group.seeds)) if not group.diverged(model)]
    return ", ".join(str(sum(group.learned(m, hop) for m in models)) for hop in hops) + f" of {len(models)}"


def _share(successes: int, trials: int) -> str:
    low, high = clopper_pearson(successes, trials)
    return f"{low:.2f} to {high:.2f}"
