"""Claims C3 to C5 and C20, judged by the hops that models of every depth learned, with and without the curriculum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Literal

from hopscope.paper.claims import Finding, General, general, in_folder, yes_or_no
from hopscope.paper.section_7 import DepthResult, TrainedModel, learned_deeper
from hopscope.statistics import fisher, sign_test
from hopscope.theory.depth import depths
from hopscope.words import counted

FAILED = 0.7
"""Training failed if the final validation loss stays above this (Section 7.2)."""

CLAIMED_HOPS = 3
"""The D at which training without the curriculum is claimed to fail (C3); one hop alone has no curriculum."""

LIKELY = 0.05
"""The p-value below which a hop likely needs more layers than another hop (C4)."""

SURELY = 0.01
"""The p-value below which it counts as certain that more runs learn one hop than another (C4)."""


def judge(result: DepthResult) -> list[Finding]:
    """Return the findings on C3, C4, C5 and C20; their scale begins with the name of the preset."""
    with_ic = sorted((model for model in result.models if model.curriculum), key=lambda model: model.layers)
    without = [model for model in result.models if not model.curriculum and model.hops == CLAIMED_HOPS]
    scale, plain_scale = _scale(result.study.scale, with_ic), _scale(result.study.scale, without)
    exactly = result.study.as_the_paper
    found = [
        _curriculum_is_needed(without, with_ic, plain_scale, exactly),
        _later_hops_are_harder(with_ic, scale, exactly),
        _hops_come_in_order(with_ic, scale, exactly),
        _no_mirage(with_ic, scale, exactly),
    ]
    return in_folder(result.run, found)


def _curriculum_is_needed(
    without: Sequence[TrainedModel], with_ic: Sequence[TrainedModel], scale: str, exactly: bool
) -> Finding:
    losses = [model.loss for model in without if model.loss is not None]
    if not losses:
        return Finding("C3", reason=f"no run without the curriculum at D = {CLAIMED_HOPS} with a finite loss")
    failed = sum(loss > FAILED for loss in losses)
    numbers = f"{failed} of {len(losses)} runs above {FAILED}, the lowest at {min(losses):.3f}"
    pairs = [model.loss > FAILED for model in without if model.loss is not None and _has_control(model, with_ic)]
    first = yes_or_no(exactly, failed == len(losses), numbers, "a run without the curriculum succeeds")
    spread = f"pairs with a positive control; {numbers}"
    return general("C3", sum(pairs), len(pairs), first, spread=spread, scale=scale)


def _has_control(model: TrainedModel, with_ic: Sequence[TrainedModel]) -> bool:
    """Return whether theory allows the last hop at this depth and the same run with the curriculum learned it."""
    alike = (model.layers, model.chains, model.seed)
    twins = [twin for twin in with_ic if (twin.layers, twin.chains, twin.seed) == alike]
    return not model.too_shallow(model.hops) and any(twin.learned(model.hops) for twin in twins)


def _later_hops_are_harder(models: Sequence[TrainedModel], scale: str, exactly: bool) -> Finding:
    runs = [model for model in models if model.loss is not None]
    if not runs:
        return Finding("C4")
    hops = range(1, runs[0].hops + 1)
    table = [[model.learned(hop) for hop in hops] for model in runs]
    totals = [sum(column) for column in zip(*table, strict=True)]
    forbidden = sum(model.forbidden(hop) for model in runs for hop in hops if model.learned(hop))
    turned = min((sign_test([row[hop - 1] - row[hop - 2] for row in table], "greater") for hop in hops[1:]), default=1)
    fewer = all(earlier > later for earlier, later in pairwise(totals)) and len(totals) > 1
    trend, depth = _trend(table), max((_needs_depth(runs, hop) for hop in hops[1:]), default=1.0)
    said: General = "open"
    if turned < SURELY or forbidden:
        said = "does not hold"
    elif fewer and totals[-1] and trend < SURELY and depth < LIKELY:
        said = "holds"
    counts = f"x1, x2, ... learned by {', '.join(map(str, totals))} of {len(runs)} runs"
    least = [_half_at(runs, hop) for hop in hops]
    at = f"{counts}; the fewest layers with which half of the seeds learn them: {', '.join(map(str, least))}"
    known = [layers for layers in least if isinstance(layers, int)]
    needs_more = known == sorted(known) and len({*least}) > 1
    why_not = "a later hop is learned by no fewer runs, or with no more layers"
    first = yes_or_no(exactly, fewer and needs_more, at, why_not)
    tests = f"fewer runs p = {trend:.1g} (Page), more layers p = {depth:.1g} (Fisher)"
    spread = tests if exactly else f"{at}; {tests}"
    return Finding("C4", *first, said, None, spread, scale)


def _half_at(runs: Sequence[TrainedModel], hop: int) -> int | str:
    """Return the smallest number of layers at which at least half of the runs learned a hop, else `none`."""
    for layers, alike in groupby(runs, key=lambda model: model.layers):
        learned = [model.learned(hop) for model in alike]
        if 2 * sum(learned) >= len(learned):
            return int(layers)
    return "none"


def _trend(table: Sequence[Sequence[bool]]) -> float:
    """Return the p-value of Page's test that fewer runs learn later hops, ignoring runs that learn all hops or none."""
    from scipy.stats import page_trend_test

    telling = [[not learned for learned in row] for row in table if len({*row}) > 1]
    if len(telling) < 2 or len(telling[0]) < 3:
        return 1.0
    return float(page_trend_test(telling, method="asymptotic").pvalue)


def _needs_depth(runs: Sequence[TrainedModel], hop: int) -> float:
    """Return the p-value of Fisher's exact test that a hop is learned more often with enough layers for it than with
    layers that suffice only for an easier hop.

    The p-value is 1 if no run learned the easier hop with those layers, and 0 if the hop needs no more layers than the
    hop before it. Every increase of the required depth is thus tested on its own.
    """
    least = depths(hop).causal
    easier = [earlier for earlier in range(1, hop) if depths(earlier).causal == depths(hop - 1).causal]
    if hop == 1 or least == depths(hop - 1).causal:
        return 0.0
    enough = [model for model in runs if not model.too_shallow(easier[0])]
    below, above = ([model for model in enough if model.too_shallow(hop) is shallow] for shallow in (True, False))
    if not any(model.learned(easier[0]) for model in below):
        return 1.0
    return fisher(sum(m.learned(hop) for m in above), len(above), sum(m.learned(hop) for m in below), len(below))


def _hops_come_in_order(models: Sequence[TrainedModel], scale: str, exactly: bool) -> Finding:
    orders = [order for model in models if (order := order_learned(model.crossings))]
    n, ordered, broken = len(orders), orders.count("in order"), orders.count("broken")
    numbers = f"{ordered} of {counted(n, 'run')} that learned two hops in order, {broken} out of order"
    first = yes_or_no(exactly and n > 0, ordered == n, numbers, "a run learned hops out of order, or two at once")
    return general("C5", ordered, n, first, spread=f"{n - ordered - broken} with two hops at one step", scale=scale)


def order_learned(crossings: Sequence[int | None]) -> Literal["in order", "tied", "broken", ""]:
    """Return whether hops were learned in order; empty if no hop, or only the first, was learned."""
    steps = [step for step in crossings if step is not None]
    left_out = any(earlier is None and later is not None for earlier, later in pairwise(crossings))
    if left_out or any(earlier > later for earlier, later in pairwise(steps)):
        return "broken"
    if len(steps) < 2:
        return ""
    return "tied" if len(set(steps)) < len(steps) else "in order"


def _no_mirage(models: Sequence[TrainedModel], scale: str, exactly: bool) -> Finding:
    tested = [(model, [hop for hop in learned_deeper(model, models) if model.too_shallow(hop)]) for model in models]
    losses = [[model.partial_losses[hop - 1] or 0.0 for hop in hops] for model, hops in tested if hops]
    if not losses:
        return Finding("C20", reason="no hop was learned with more layers than a run below its least depth had")
    none = sum(min(row) >= FAILED for row in losses)
    final = [loss for model in models for loss in model.partial_losses if loss is not None]
    between = sum(0.1 < loss < FAILED for loss in final)
    numbers = (
        f"below their least depth, hops end at a loss of {min(map(min, losses)):.2f} or more (guessing: 0.75); "
        f"{between} of all {len(final)} final losses lie between 0.1 and {FAILED}"
    )
    learned = sum(model.learned(hop) for model, hops in tested for hop in hops)
    first = yes_or_no(exactly, not learned, numbers, "a hop was learned below its least depth")
    return general("C20", none, len(losses), first, spread=numbers, scale=scale)


def _scale(preset: str, models: Sequence[TrainedModel]) -> str:
    if not models:
        return preset
    seeds = Counter(model.layers for model in models)
    fewest, most = min(seeds.values()), max(seeds.values())
    fewer = f"{fewest} to " if fewest < most else ""
    return f"{preset}: D = {models[0].hops}, {min(seeds)}..{max(seeds)} layers x {fewer}{counted(most, 'seed')}"
