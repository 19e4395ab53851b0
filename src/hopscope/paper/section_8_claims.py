"""Claims C6 to C11, judged by the models of Section 8: what training came to, and the circuits that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import get_args

from hopscope.circuits.circuit_parts import Fill, Loss, StrictReading
from hopscope.circuits.compare import overlap, steps_beyond_first
from hopscope.paper.claims import Finding, Verdict
from hopscope.paper.judging import (
    LEAST_MODELS,
    RUN_GONE,
    ModelVerdict,
    Readings,
    below,
    every_model,
    losses,
    ranged,
    spans,
)
from hopscope.paper.models import MAX_LOSS, Studied
from hopscope.statistics import clopper_pearson
from hopscope.theory.depth import depths
from hopscope.words import counted

LOW = 0.01
"""The validation loss of transformers A, B and C is below this (Section 8.2)."""

MANY = 10
"""The fewest models that make a distribution (C11)."""

MOST = 2 / 3
"""What surely holds for a larger share of models than this may be said of models in general (C11)."""

ALWAYS = 0.9
"""What surely holds for a smaller share of models than this does not hold for models in general (C11)."""

NEEDED = 0.10
"""A path is needed if the loss without it lies above this: so much the paper tells of the layer it exempts (C11)."""

TOO_SMALL = "so small that theory asks for more than a third of its heads"
"""Said of a model that cannot show whether few heads matter (C7)."""

WHOLE = ("C7", "C9", "C10", "C11")
"""Claims that are decided by removing heads in training: circuits are small then and, with their spare parts gone,
alike. These claims are not judged on models in which that was done."""

PRUNED = "heads were pruned while the models trained"
"""Why such a claim is not run if there are no other models."""

FILLS: tuple[Fill, ...] = get_args(Fill)


def judge_training(models: Sequence[Studied], scale: str) -> Finding:
    """Judge C6."""
    once = {(model.setup.recipe, model.setup.problem, model.seed): model for model in models}
    alike = [model for model in once.values() if model.shape == (12, 1, 3)]
    trained = [(model, model.learned) for model in alike if model.learned]
    if not trained:
        return Finding("C6", "not run", reason="no model of 12 layers, one head and D = 3")
    outcomes: list[ModelVerdict] = []
    for _, learned in trained:
        if learned.held_out is None or (learned.median is not None and learned.median >= LOW):
            outcomes.append("fails")
        elif learned.median is not None:
            outcomes.append(below(learned.held_out, LOW))
    unlogged = sum(learned.held_out is not None and learned.median is None for _, learned in trained)
    unjudged = [RUN_GONE] * (len(alike) - len(trained)) + ["with no loss logged in its last tenth"] * unlogged
    verdict, reason = every_model(outcomes, unjudged=unjudged)
    ours = (
        f"{', '.join(model.name.upper() for model, _ in trained)}: median validation MSE over the last tenth "
        f"{losses([learned.median for _, learned in trained])}; over the last steps, as the paper has it, "
        f"{losses([learned.window for _, learned in trained])}"
    )
    held_out = [learned.held_out for _, learned in trained if learned.held_out]
    interval = f"held out: {spans(held_out) or 'diverged'}"
    return Finding("C6", verdict, ours, len(alike), interval, scale, reason=reason)


def judge_circuits(models: Sequence[Studied], scale: str) -> list[Finding]:
    """Judge C7 to C11, on the models that solve the task."""
    looked = list({model.circuit.model: model for model in models if model.circuit}.values())
    solved = [model for model in looked if model.solves]
    aside = f"; {len(looked) - len(solved)} of {counted(len(looked), 'model')} had not learned the task"
    solving = [*solved, *(model for model in models if model.circuit is None and model.solves)]
    judges: dict[str, Callable[[Readings], Finding]] = {
        "C7": lambda readings: _few_heads(readings, scale),
        "C8": lambda readings: _first_ties(readings, scale),
        "C9": lambda readings: _differ(readings.read, scale),
        "C10": lambda readings: alone("C10", readings, scale),
        "C11": lambda readings: _needed(readings, scale),
    }
    findings = []
    for claim, judge_it in judges.items():
        judged = [model for model in solving if claim not in WHOLE or not model.pruned]
        readings = Readings.of(judged)
        if readings.nothing:
            why = readings.nothing if solving else "no model had learned the task"
            why = why if judged or not solving else PRUNED
            findings.append(Finding(claim, "not run", reason=why if looked else ""))
            continue
        finding = judge_it(readings)
        told = finding.ours + aside if len(looked) > len(solved) and finding.ours else finding.ours
        findings.append(replace(finding, ours=told))
    return findings


def _few_heads(readings: Readings, scale: str) -> Finding:
    """Judge C7."""
    outcomes: list[ModelVerdict] = []
    words, needed, small = [], [], []
    for model, strict in readings.read:
        layers, heads, hops = model.shape
        of, theory = layers * heads, depths(hops).causal_one_head
        words.append(f"{len(strict.fewest_heads)} of {of}")
        needed.append(theory)
        if of // 3 < theory:  # whatever such a model learned, it could not do with few
            small.append(TOO_SMALL)
            continue
        outcome = below(strict.fewest_heads_loss.interval, MAX_LOSS)
        many = len(strict.fewest_heads) > min(of // 3, 2 * theory)
        outcomes.append("fails" if many else "meets" if outcome == "meets" else "open")
    unjudged = ["without a circuit"] * readings.missing + small + list(readings.unjudged)
    verdict, reason = every_model(outcomes, unjudged=unjudged)
    ours = f"{', '.join(words) or 'no'} heads; {max(needed, default=0)} layers of one would suffice" + readings.aside
    interval = f"MSE with those heads alone {spans([s.fewest_heads_loss.interval for _, s in readings.read]) or '-'}"
    return Finding("C7", verdict, ours, readings.models, interval, scale, reason=reason)


def _first_ties(readings: Readings, scale: str) -> Finding:
    """Judge C8."""
    outcomes: list[ModelVerdict] = ["open"] * readings.missing
    more = tied = 0
    certified = 0
    for model, strict in readings.read:
        if "strict" not in model.certified:
            outcomes.append("open")
            continue
        pairs = {(f">x{k}", f"x{k - 1}>") for k in range(1, model.shape[2] + 1)}
        first = {(path.query, path.key) for path in strict.paths if path.layer == strict.first_layer}
        tied += pairs <= first
        more += bool(first - pairs)
        outcomes.append("meets" if first == pairs else "fails")
        certified += 1
    verdict, reason = every_model(outcomes, open_ones="without a certified strict circuit", unjudged=readings.unjudged)
    doubtful = len(readings.read) - certified
    ours = (
        f"every pair tied in {tied} of {counted(certified, 'certified strict circuit')}; "
        f"something else done there in {more}"
        + (f"; {counted(doubtful, 'strict circuit')} not certified" if doubtful else "")
    )
    low, high = clopper_pearson(outcomes.count("meets"), readings.models)
    interval = f"share of models {low:.2f} to {high:.2f}"
    return Finding("C8", verdict, ours + readings.aside, readings.models, interval, scale, reason=reason)


def _differ(read: Sequence[tuple[Studied, StrictReading]], scale: str) -> Finding:
    """Judge C9."""
    # One reading for both: the strict one where it was searched in several orders in every model.
    strictly = all(strict.others for _, strict in read)
    read = [(model, strict) for model, strict in read if ("strict" if strictly else "natural") in model.certified]
    if len(read) < LEAST_MODELS:
        why = (
            f"too few models with a certified circuit: {len(read)}, and the rule asks for {LEAST_MODELS} different ones"
        )
        return Finding("C9", "inconclusive", scale=scale, reason=why)
    sets = [_searches(model, strict if strictly else None) for model, strict in read]
    within = [min((overlap(*pair) for pair in combinations(found, 2)), default=None) for found in sets]
    between = [(overlap(one[0], two[0]), i, j) for (i, one), (j, two) in combinations(enumerate(sets), 2)]
    shares = [share for share, _, _ in between]
    known = [share for share in within if share is not None]
    ours = (
        f"two models share {ranged(shares)} of their steps beyond the first useful layer, two searches of one model "
        f"{ranged(known)} ({'strict' if strictly else 'natural'} reading)"
    )
    verdict: Verdict = "reproduced"
    reason = ""
    if len(known) < len(sets):
        verdict, reason = "inconclusive", f"{counted(len(sets) - len(known), 'model')} searched in one order only"
    elif any(share > 0.5 or share >= min(known[i], known[j]) for share, i, j in between):
        verdict = "not reproduced"
    return Finding("C9", verdict, ours, len(between), (min(shares), max(shares)), scale, reason=reason)


def _searches(model: Studied, strict: StrictReading | None) -> list[set[tuple[str, str]]]:
    """The steps beyond the first layer that each search of a model ended in; the model's circuit comes first."""
    if strict is not None:
        return [steps_beyond_first([path.where for path in strict.paths]), *map(steps_beyond_first, strict.others)]
    assert model.circuit is not None
    return [steps_beyond_first(paths) for paths in model.circuit.ends]


def alone(claim: str, readings: Readings, scale: str, least: int = LEAST_MODELS) -> Finding:
    """Judge C10, and the part of C12 about the circuit."""
    by_fill = {fill: [strict.loss(fill) for _, strict in readings.read] for fill in FILLS}
    lost: list[ModelVerdict] = ["fails"] * readings.missing
    outcomes: dict[Fill, list[ModelVerdict]] = {
        fill: [below(loss.interval, MAX_LOSS) for loss in found] + lost for fill, found in by_fill.items()
    }
    order: dict[Verdict, int] = {"reproduced": 0, "inconclusive": 1, "not reproduced": 2, "not run": 3}
    verdicts = {fill: every_model(mine, least, unjudged=readings.unjudged) for fill, mine in outcomes.items()}
    fill = min(FILLS, key=lambda fill: order[verdicts[fill][0]])
    verdict, reason = verdicts[fill]
    told = "; ".join(f"{fill} {losses([loss.mse for loss in found]) or '-'}" for fill, found in by_fill.items())
    ours = f"MSE of the circuit alone, other rows filled: {told}" + readings.aside
    interval = f"{fill}: {spans([loss.interval for loss in by_fill[fill]]) or '-'}"
    return Finding(claim, verdict, ours, readings.models, interval, scale, reason=reason)


def _needed(readings: Readings, scale: str) -> Finding:
    """Judge C11. A model whose circuit is not known may meet the claim or not, and counts on neither side."""
    found = [strict for _, strict in readings.read]
    later = [loss.mse for strict in found for loss in _beyond_first(strict)]
    first = [strict.first_layer_uniform.mse for strict in found]
    meet, n = sum(map(_needs_every_path, found)), readings.models
    low, high = clopper_pearson(meet, n)[0], clopper_pearson(meet + len(readings.unjudged), n)[1]
    ours = (
        f"{meet} of {counted(n, 'model')} meet it; one path ablated: MSE {ranged(later)}, "
        f"{_share_within(later, 0.17, 0.89)} in 0.17 to 0.89; first useful layer uniform: {ranged(first)}, "
        f"{_share_within(first, 0.05, 0.10)} in 0.05 to 0.10"
    ) + readings.aside
    verdict: Verdict = "inconclusive"
    reason = ""
    if readings.judged < MANY:
        reason = f"too few models: {readings.judged}, and the rule asks for {MANY}"
    elif high < ALWAYS:
        verdict = "not reproduced"
    elif low > MOST:
        verdict = "reproduced"
    else:
        reason = f"of all models {low:.0%} to {high:.0%} may meet it"
    interval = f"share of models {low:.2f} to {high:.2f}"
    return Finding("C11", verdict, ours, n, interval, scale, reason=reason)


def _needs_every_path(strict: StrictReading) -> bool:
    """Whether a circuit surely works alone, and surely fails by far without any one path beyond its first useful layer,
    while the loss with that layer uniform lies in between."""
    own, beyond, uniform = strict.loss(strict.fill), _beyond_first(strict), strict.first_layer_uniform.mse
    works = below(own.interval, MAX_LOSS) == "meets"
    needed = bool(beyond) and all(loss.interval[0] > NEEDED for loss in beyond)
    return works and needed and own.mse < uniform < min(loss.mse for loss in beyond)


def _beyond_first(strict: StrictReading) -> list[Loss]:
    """The losses without each one path beyond the first useful layer."""
    return [path.without for path in strict.paths if path.layer > strict.first_layer]


def _share_within(values: Sequence[float], low: float, high: float) -> str:
    return f"{sum(low <= value <= high for value in values)} of {len(values)}"
