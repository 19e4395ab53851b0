"""Claims C3 to C5, judged by which hops the models of every depth learned, with and without the implicit curriculum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Literal

from hopscope.paper.claims import Finding, Verdict, in_folder
from hopscope.paper.section_7 import DepthResult, TrainedModel
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


def judge(result: DepthResult) -> list[Finding]:
    """Findings on C3, C4 and C5; their scale begins with the name of the preset."""
    with_ic = sorted((model for model in result.models if model.curriculum), key=lambda model: model.layers)
    without = [model for model in result.models if not model.curriculum]
    scale, plain_scale = _scale(result.study.scale, with_ic), _scale(result.study.scale, without)
    found = [
        _curriculum_is_needed(without, with_ic, plain_scale),
        _later_hops_are_harder(with_ic, scale),
        _hops_come_in_order(with_ic, scale),
    ]
    return in_folder(result.run, found)


def _curriculum_is_needed(without: Sequence[TrainedModel], with_ic: Sequence[TrainedModel], scale: str) -> Finding:
    """Judge C3."""
    models = [model for model in without if model.hops == CLAIMED_HOPS]
    if not models:
        why = f"no run without the curriculum at D = {CLAIMED_HOPS}" if without else ""
        return Finding("C3", "not run", reason=why)
    losses = [model.loss for model in models if model.loss is not None]
    succeeded = sum(loss <= FAILED for loss in losses)
    pairs = sum(_has_control(model, with_ic) and not model.diverged for model in models)
    bound = clopper_pearson(0, pairs)[1]
    observed = (
        f"{len(losses) - succeeded} of {len(models)} runs end above {FAILED}, {succeeded} do not, "
        f"{len(models) - len(losses)} diverged"
        + (f"; the lowest at {min(losses):.3f}" if losses else "")
        + f"; in {counted(pairs, 'pair')} the curriculum learned the same hop"
    )
    interval = f"success without the curriculum: at most {bound:.0%} of runs (95%)"
    if succeeded:
        return Finding("C3", "not reproduced", observed, len(losses), clopper_pearson(succeeded, len(losses)), scale)
    reason = ""
    if not pairs:
        reason = "no positive control: nowhere did the run with the curriculum learn what its twin failed at"
    elif bound >= RARE:
        reason = f"too few pairs: {pairs} leave up to {bound:.0%} of runs to succeed"
    return Finding("C3", "inconclusive" if reason else "reproduced", observed, pairs, interval, scale, reason=reason)


def _has_control(model: TrainedModel, with_ic: Sequence[TrainedModel]) -> bool:
    """Whether theory allows the hop at this depth, and the run with the curriculum, its twin, learned it."""
    alike = (model.layers, model.chains, model.seed)
    twins = [twin for twin in with_ic if (twin.layers, twin.chains, twin.seed) == alike]
    return not model.too_shallow(model.hops) and any(twin.learned(model.hops) for twin in twins)


def _later_hops_are_harder(models: Sequence[TrainedModel], scale: str) -> Finding:
    """Judge C4."""
    runs = [model for model in models if not model.diverged]
    if not runs:
        return Finding("C4", "not run")
    hops = range(1, runs[0].hops + 1)
    last, diverged = hops[-1], len(models) - len(runs)
    table = [[model.learned(hop) for hop in hops] for model in runs]
    totals = [sum(column) for column in zip(*table, strict=True)]
    learned = [(model, hop) for model in runs for hop in hops if model.learned(hop)]
    forbidden = sum(model.forbidden(hop) for model, hop in learned)
    too_shallow = sum(model.too_shallow(hop) for model, hop in learned)
    trend, depth, steps = _trend(table), _needs_depth(runs, last), _steps(runs, hops)
    first = sign_test([model.learned(1) - model.learned(last) for model in runs if model.too_shallow(last)], "greater")
    successes = "; ".join(
        f"{counted(layers, 'layer')} {_successes(list(alike), hops)}"
        for layers, alike in groupby(runs, key=lambda model: model.layers)
    )
    observed = (
        f"runs that learned x1, x2, ...: {successes}; {forbidden} with t < log3(2D), {too_shallow} below the exact "
        f"minimum; in order p = {trend:.2g} (Page), x{last} by depth p = {depth:.2g} (Fisher), x1 and not x{last} "
        f"below its depth p = {first:.2g} (sign)" + (f"; {diverged} diverged" if diverged else "")
    )
    shares = [clopper_pearson(total, len(runs)) for total in totals]
    interval = ", ".join(f"x{hop} {low:.2f} to {high:.2f}" for hop, (low, high) in zip(hops, shares, strict=True))
    tied = [hop for hop, (earlier, later) in enumerate(pairwise(totals), start=2) if earlier <= later]
    turned = min((sign_test([row[hop - 1] - row[hop - 2] for row in table], "greater") for hop in hops[1:]), default=1)
    verdict: Verdict = "inconclusive"
    reason = ""
    if forbidden or turned < SURELY:
        verdict = "not reproduced"
    elif not all(totals):
        reason = f"x{totals.index(0) + 1} was learned at no depth tried"
    elif tied and totals[tied[0] - 1] == len(runs):
        reason = "every run learned hops that are to be distinguished: shallower models are missing"
    elif tied:
        reason = f"x{tied[0]} was learned no more rarely than x{tied[0] - 1}"
    elif trend >= SURELY or depth >= LIKELY:
        reason = "too few runs for the tests"
    elif first >= LIKELY:
        reason = f"with fewer layers than x{last} needs too few runs learned x1: one depth may do for both"
    elif steps:
        reason = steps
    elif scale.startswith("paper") and len(hops) != 5:
        reason = f"the paper's scale has D = 5, this is D = {len(hops)}"
    else:
        verdict = "reproduced"
    return Finding("C4", verdict, observed, len(runs), f"share of runs: {interval}", scale, reason=reason)


def _trend(table: Sequence[Sequence[bool]]) -> float:
    """p-value of Page's test that hops are learned ever more rarely; runs are the blocks, ties take mean ranks."""
    from scipy.stats import page_trend_test

    telling = [[not learned for learned in row] for row in table if len(set(row)) > 1]
    if len(telling) < 2 or len(telling[0]) < 3:
        return 1.0
    return float(page_trend_test(telling, method="asymptotic").pvalue)


def _needs_depth(runs: Sequence[TrainedModel], hop: int) -> float:
    """p-value of Fisher's exact test that a hop is learned more often from its exact minimum depth on than below it."""
    deep = [model.learned(hop) for model in runs if not model.too_shallow(hop)]
    shallow = [model.learned(hop) for model in runs if model.too_shallow(hop)]
    return fisher(sum(deep), len(deep), sum(shallow), len(shallow))


def _steps(runs: Sequence[TrainedModel], hops: Sequence[int]) -> str:
    """Which hop may need no more layers than one before it that theory asks fewer of; empty if none.

    x1 alone may need few layers and all others the same number: each step of theory's ladder must be seen by itself.
    """
    least = {hop: depths(hop).causal for hop in hops}
    for hop in hops[1:]:
        if least[hop] == least[hop - 1]:
            continue
        easier = next(earlier for earlier in hops if least[earlier] == least[hop - 1])
        enough = [model for model in runs if not model.too_shallow(easier)]
        seen = any(model.too_shallow(hop) and model.learned(easier) for model in enough)
        if not seen or _needs_depth(enough, hop) >= LIKELY:
            return f"too few runs tell whether x{hop} needs more layers than x{easier}"
    return ""


def _hops_come_in_order(models: Sequence[TrainedModel], scale: str) -> Finding:
    """Judge C5."""
    if not models:
        return Finding("C5", "not run")
    orders = [order_learned(model.crossings) for model in models]
    n, broken, tied = len(orders) - orders.count(""), orders.count("broken"), orders.count("tied")
    ordered = orders.count("in order")
    low, high = clopper_pearson(ordered, n)
    observed = (
        f"{ordered} of {counted(n, 'informative run')} in order, {broken} out of order, {tied} unresolved; "
        f"{len(models) - n} of {len(models)} runs learned one hop at most"
    )
    if broken:
        return Finding("C5", "not reproduced", observed, n, (low, high), scale)
    reason = ""
    if not n:
        reason = "no informative run: none learned two hops"
    elif low < 1 - RARE and clopper_pearson(n, n)[0] >= 1 - RARE:
        reason = f"{counted(tied, 'run')} unresolved: log more often"
    elif low < 1 - RARE:
        reason = f"too few informative runs: of all, {low:.0%} or more may be in order"
    return Finding("C5", "inconclusive" if reason else "reproduced", observed, n, (low, high), scale, reason=reason)


def order_learned(crossings: Sequence[int | None]) -> Literal["in order", "tied", "broken", ""]:
    """Whether hops were learned in order; empty where one was learned at most, and that the first."""
    steps = [step for step in crossings if step is not None]
    left_out = any(earlier is None and later is not None for earlier, later in pairwise(crossings))
    if left_out or any(earlier > later for earlier, later in pairwise(steps)):
        return "broken"
    if len(steps) < 2:
        return ""
    return "tied" if len(set(steps)) < len(steps) else "in order"


def _scale(preset: str, models: Sequence[TrainedModel]) -> str:
    if not models:
        return ""
    seeds = Counter(model.layers for model in models)
    fewest, most = min(seeds.values()), max(seeds.values())
    fewer = f"{fewest} to " if fewest < most else ""
    return f"{preset}: D = {models[0].hops}, {min(seeds)}..{max(seeds)} layers x {fewer}{counted(most, 'seed')}"


def _successes(models: Sequence[TrainedModel], hops: range) -> str:
    return ", ".join(str(sum(model.learned(hop) for model in models)) for hop in hops) + f" of {len(models)}"
