"""Section 8 and Appendix E: the circuits of trained transformers, found and compared; Figure 5, claims C6 to C11.

Claims are judged by the circuit of the Appendix E procedure: heads that are no part of it are uniform or the identity,
and in a head that is, the whole pattern is imposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from hopscope.circuits.checks.card import Card, Check, CheckName, not_passed
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath, Fill, ImposedCircuit
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import CircuitStore
from hopscope.paper.claims import Finding, Verdict, in_folder
from hopscope.paper.models import (
    LEAST_MODELS,
    MAX_LOSS,
    PRUNED,
    RUN_GONE,
    Circuits,
    ModelStudy,
    ModelVerdict,
    Studied,
    below,
    every_model,
    losses,
    ranged,
    read_models,
    shape_in_words,
    spans,
)
from hopscope.paper.report import PageFigure, Section, Table
from hopscope.plot.card import card
from hopscope.plot.circuit import figure_5
from hopscope.problem.paths import NamedPath
from hopscope.statistics import Measured, clopper_pearson
from hopscope.theory.depth import depths
from hopscope.training.run import RunFolder
from hopscope.words import counted

LOW = 0.01
"""The validation loss of transformers A, B and C is below this (Section 8.2)."""

MANY = 10
"""The fewest models that make a distribution (C11)."""

MOST = 2 / 3
"""What surely holds for a larger share of models than this may be claimed of models in general (C11)."""

ALWAYS = 0.9
"""What surely holds for a smaller share of models than this does not hold for models in general (C11)."""

NEEDED = 0.10
"""A path is needed if the loss without it lies above this, the most that the paper reports of the layer it exempts."""

NOT_OF_PRUNED = ("C7", "C9", "C10", "C11")
"""Claims that removing heads in training decides: what is left is small and alike. Models so trained do not count."""

FILLS: tuple[Fill, ...] = get_args(Fill)


@dataclass(frozen=True)
class CircuitResult:
    """Those models of the study that are there."""

    study: ModelStudy
    models: tuple[Studied, ...]


def find(path: Path, number: int, effort: Effort) -> None:
    """Find the circuit of one model of the run in `path`, unless it diverged; that of the same search is reused."""
    run = RunFolder(path)
    if not run.result.models[number].diverged:
        CircuitStore(run).find(number, effort=effort)


def read(study: ModelStudy, folder: Path) -> CircuitResult:
    """Read what is in `folder`: finished runs, and records of circuits; `InputError` if one is damaged."""
    return CircuitResult(study, read_models(study.setups, folder / study.at))


def judge(result: CircuitResult) -> list[Finding]:
    """Findings on C6 to C11."""
    if not result.models:
        return [Finding(f"C{number}", "not run") for number in range(6, 12)]
    scale = f"{result.study.scale}: {shape_in_words(result.models)}"
    found = [_training(result.models, scale), *_circuits(result.models, scale)]
    return in_folder(result.study.at, found)


def _training(models: Sequence[Studied], scale: str) -> Finding:
    """Judge C6."""
    alike = [model for model in models if model.shape == (12, 1, 3)]
    trained = [(model, model.learned) for model in alike if model.learned]
    if not trained:
        return Finding("C6", "not run", reason="no model of 12 layers, one head and D = 3")
    outcomes: list[ModelVerdict] = []
    unjudged = [RUN_GONE] * (len(alike) - len(trained))
    for _, learned in trained:
        if learned.held_out is None or (learned.median is not None and learned.median >= LOW):
            outcomes.append("fails")
        elif learned.median is not None:
            outcomes.append(below(learned.held_out, LOW))
        else:
            unjudged.append("with no loss logged in its last tenth")
    verdict, reason = every_model(outcomes, unjudged=unjudged)
    observed = (
        f"{', '.join(model.name.upper() for model, _ in trained)}: median validation MSE over the last tenth "
        f"{losses([learned.median for _, learned in trained])}; over the last steps, as the paper has it, "
        f"{losses([learned.window for _, learned in trained])}"
    )
    held_out = [learned.held_out for _, learned in trained if learned.held_out]
    interval = f"held out: {spans(held_out) or 'diverged'}"
    return Finding("C6", verdict, observed, len(alike), interval, scale, reason=reason)


def _circuits(models: Sequence[Studied], scale: str) -> list[Finding]:
    """Judge C7 to C11, on the models that solve the task."""
    searched = [model for model in models if model.circuit]
    solved = [model for model in searched if model.solves]
    unlearned = len(searched) - len(solved)
    aside = f"; {unlearned} of {counted(len(searched), 'model')} had not learned the task" if unlearned else ""
    solving = [*solved, *(model for model in models if model.circuit is None and model.solves)]
    judges: dict[str, Callable[[Circuits, str], Finding]] = {
        "C7": _few_heads, "C8": _first_ties, "C9": _differ, "C10": alone, "C11": _needed
    }  # fmt: skip
    findings = []
    for claim, judge_it in judges.items():
        judged = [model for model in solving if claim not in NOT_OF_PRUNED or not model.pruned]
        circuits = Circuits.of(judged)
        if not judged or circuits.nothing:
            why = circuits.nothing if judged else PRUNED if solving else "no model had learned the task"
            findings.append(Finding(claim, "not run", reason=why if searched else ""))
            continue
        finding = judge_it(circuits, scale)
        findings.append(replace(finding, observed=finding.observed + aside if finding.observed else ""))
    return findings


def _few_heads(circuits: Circuits, scale: str) -> Finding:
    """Judge C7."""
    outcomes: list[ModelVerdict] = []
    words, needed, small = [], [], []
    for model, imposed in circuits.found:
        layers, heads, hops = model.shape
        total, theory = layers * heads, depths(hops).causal_one_head
        words.append(f"{len(imposed.fewest_heads)} of {total}")
        needed.append(theory)
        if total // 3 < theory:  # whatever such a model learned, it could not do with few
            small.append("so small that theory asks for more than a third of its heads")
            continue
        outcome = below(imposed.fewest_heads_loss.interval, MAX_LOSS)
        many = len(imposed.fewest_heads) > min(total // 3, 2 * theory)
        outcomes.append("fails" if many else "meets" if outcome == "meets" else "open")
    unjudged = ["without a circuit"] * circuits.missing + small + list(circuits.undecided)
    verdict, reason = every_model(outcomes, unjudged=unjudged)
    observed = f"{', '.join(words) or 'no'} heads; {max(needed, default=0)} layers of one would suffice"
    low = spans([imposed.fewest_heads_loss.interval for _, imposed in circuits.found]) or "-"
    interval = f"MSE with those heads alone {low}"
    return Finding("C7", verdict, observed + circuits.aside, circuits.models, interval, scale, reason=reason)


def _first_ties(circuits: Circuits, scale: str) -> Finding:
    """Judge C8."""
    outcomes: list[ModelVerdict] = ["open"] * circuits.missing
    more = tied = 0
    for model, imposed in circuits.found:
        pairs = {(f">x{hop}", f"x{hop - 1}>") for hop in range(1, model.shape[2] + 1)}
        first = {(path.query, path.key) for path in imposed.paths if path.layer == imposed.first_layer}
        tied += pairs <= first
        more += bool(first - pairs)
        outcomes.append("meets" if first == pairs else "fails")
    verdict, reason = every_model(outcomes, open_ones="without a circuit", unjudged=circuits.undecided)
    observed = f"every pair tied in {tied} of {counted(len(circuits.found), 'circuit')}; something else there in {more}"
    low, high = clopper_pearson(outcomes.count("meets"), circuits.models)
    interval = f"share of models {low:.2f} to {high:.2f}"
    return Finding("C8", verdict, observed + circuits.aside, circuits.models, interval, scale, reason=reason)


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


def _differ(circuits: Circuits, scale: str) -> Finding:
    """Judge C9."""
    found = [imposed for _, imposed in circuits.found]
    if len(found) < LEAST_MODELS:
        why = f"too few models with a circuit: {len(found)}, and the rule asks for {LEAST_MODELS} different ones"
        return Finding("C9", "inconclusive", scale=scale, reason=why)
    steps = [
        [steps_beyond_first(paths) for paths in ([path.where for path in imposed.paths], *imposed.others)]
        for imposed in found
    ]
    within = [min((overlap(*pair) for pair in combinations(ends, 2)), default=None) for ends in steps]
    between = [(overlap(first[0], other[0]), i, j) for (i, first), (j, other) in combinations(enumerate(steps), 2)]
    shares = [share for share, _, _ in between]
    known = [share for share in within if share is not None]
    observed = (
        f"two models share {ranged(shares)} of their steps beyond the first useful layer, two searches of one model "
        f"{ranged(known)}"
    )
    verdict: Verdict = "reproduced"
    reason = ""
    if len(known) < len(steps):
        verdict, reason = "inconclusive", f"{counted(len(steps) - len(known), 'model')} searched in one order only"
    elif any(share > 0.5 or share >= min(known[i], known[j]) for share, i, j in between):
        verdict = "not reproduced"
    return Finding("C9", verdict, observed, len(between), (min(shares), max(shares)), scale, reason=reason)


def alone(circuits: Circuits, scale: str, claim: str = "C10", least: int = LEAST_MODELS) -> Finding:
    """Judge C10, and the part of C12 about the circuit."""
    by_fill = {fill: [imposed.loss(fill) for _, imposed in circuits.found] for fill in FILLS}
    lost: list[ModelVerdict] = ["fails"] * circuits.missing
    verdicts = {
        fill: every_model([below(loss.interval, MAX_LOSS) for loss in found] + lost, least, unjudged=circuits.undecided)
        for fill, found in by_fill.items()
    }
    order: list[Verdict] = ["reproduced", "inconclusive", "not reproduced", "not run"]
    fill = min(FILLS, key=lambda fill: order.index(verdicts[fill][0]))
    verdict, reason = verdicts[fill]
    words = "; ".join(f"{name} {losses([loss.mean for loss in found]) or '-'}" for name, found in by_fill.items())
    observed = f"MSE of the circuit alone, other rows filled: {words}" + circuits.aside
    interval = f"{fill}: {spans([loss.interval for loss in by_fill[fill]]) or '-'}"
    return Finding(claim, verdict, observed, circuits.models, interval, scale, reason=reason)


def _needed(circuits: Circuits, scale: str) -> Finding:
    """Judge C11. A model whose circuit is not known may meet the claim or not, and counts on neither side."""
    found = [imposed for _, imposed in circuits.found]
    later = [loss.mean for imposed in found for loss in _beyond_first(imposed)]
    first = [imposed.first_layer_uniform.mean for imposed in found]
    meet, n = sum(map(_needs_every_path, found)), circuits.models
    low, high = clopper_pearson(meet, n)[0], clopper_pearson(meet + len(circuits.undecided), n)[1]
    observed = (
        f"{meet} of {counted(n, 'model')} meet it; one path ablated: MSE {ranged(later)}, "
        f"{sum(0.17 <= mse <= 0.89 for mse in later)} of {len(later)} in 0.17 to 0.89; first useful layer uniform: "
        f"{ranged(first)}, {sum(0.05 <= mse <= 0.10 for mse in first)} of {len(first)} in 0.05 to 0.10"
    ) + circuits.aside
    verdict: Verdict = "inconclusive"
    reason = ""
    if circuits.decided < MANY:
        reason = f"too few models: {circuits.decided}, and the rule asks for {MANY}"
    elif high < ALWAYS:
        verdict = "not reproduced"
    elif low > MOST:
        verdict = "reproduced"
    else:
        reason = f"of all models {low:.0%} to {high:.0%} may meet it"
    return Finding("C11", verdict, observed, n, f"share of models {low:.2f} to {high:.2f}", scale, reason=reason)


def _needs_every_path(imposed: ImposedCircuit) -> bool:
    """Whether a circuit surely works alone, and surely fails by far without any one path beyond its first useful layer,
    while the loss with that layer uniform lies in between."""
    own, beyond, uniform = imposed.loss(imposed.fill), _beyond_first(imposed), imposed.first_layer_uniform.mean
    works = below(own.interval, MAX_LOSS) == "meets"
    needed = bool(beyond) and all(loss.interval[0] > NEEDED for loss in beyond)
    return works and needed and own.mean < uniform < min(loss.mean for loss in beyond)


def _beyond_first(imposed: ImposedCircuit) -> list[Measured]:
    """The losses without each one path beyond the first useful layer."""
    return [path.without for path in imposed.paths if path.layer > imposed.first_layer]


def section(result: CircuitResult) -> Section | None:
    """The section with a drawing of every circuit and a table of its paths; None where no circuit was searched for."""
    found = [(model.name, model.circuit) for model in result.models if model.circuit]
    if not found:
        return None
    drawn = []
    for name, circuit in found:
        stem = f"circuit-{circuit.number if len(result.study.setups) == 1 else name}"
        caption = (
            f"Circuit of seed {circuit.seed} (as Figure 5): {circuit.verdict if circuit.found else 'none found'}. "
            "Numbers: loss of the circuit without the path, with the model's own patterns."
        )
        drawn.append(PageFigure(stem, figure_5(circuit), caption))
        if circuit.card is not None:
            caption = f"The card of the circuit of seed {circuit.seed}: `docs/circuits.md` explains it."
            drawn.append(PageFigure(f"{stem}-card", card(circuit), caption))
    heads = ", ".join(str(len(circuit.used_heads)) for _, circuit in found)
    layers, total = found[0][1].layers, found[0][1].layers * found[0][1].heads
    certified = sum(circuit.certified for _, circuit in found)
    table = Table(
        ["seed", "layer", "head", "path", "attention", "loss without it, imposed", "own patterns", "feeds"],
        [_row(circuit, path) for _, circuit in found for path in circuit.paths],
        "Paths: mean attention in the model; loss of the circuit without the path, with its patterns imposed and with "
        "the model's own; and what uses it.",
    )
    cards = Table(
        ["seed", "circuit", "paths", "loss, own patterns", "loss, imposed", "best random", "ACDC", "checks failed"],
        [row for _, circuit in found if circuit.found for row in _card_rows(circuit)],
        "Circuits alone: each as it was found with the model's own patterns, and as the paper's procedure (Appendix E) "
        "finds it with patterns imposed; and the faithfulness of other circuits of its size.",
    )
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"The circuits of the {layers}-layer models, {certified} of {len(found)} certified on sequences that the "
            f"search never saw. Heads in use: {heads} of {total}. `hopscope circuit RUN --show` prints them with every "
            "check; `docs/circuits.md` says what the checks mean.",
        ],
        figures=drawn,
        tables=[cards, table] if table.rows else [],
    )


def _card_rows(circuit: Circuit) -> list[list[object]]:
    """The circuit with own patterns, and that of Appendix E if there is one: losses, baselines, checks."""

    def words(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    def row(name: str, paths: int, card: Card | None, checks: Mapping[CheckName, Check], *losses: float | None) -> Any:
        others = (card.baselines.random, card.baselines.acdc) if card else (None, None)
        failed = ", ".join(not_passed(checks)).replace("_", " ") or ("none" if checks else "not measured")
        return [circuit.seed, name, paths, *map(words, (*losses, *others)), failed]

    own, imposed = (circuit.losses[patterns] for patterns in ("own", "imposed")), circuit.imposed
    rows = [row("own patterns", len(circuit.paths), circuit.card, circuit.checks, *own)]
    if imposed:
        losses = imposed.own.mean if imposed.own else None, imposed.loss(imposed.fill).mean
        rows.append(row("Appendix E", len(imposed.paths), imposed.card, imposed.checks, *losses))
    return rows


def _row(circuit: Circuit, path: CircuitPath) -> list[object]:
    layer, head, query, key = path.path.names(circuit.roles)
    uses = ", ".join(path.uses(circuit.roles)) or "–"
    numbers = [f"{number:.3f}" for number in (path.weight, path.without_imposed.mean, path.without.mean)]
    return [circuit.seed, layer, head, f"{query} to {key}", *numbers, uses]
