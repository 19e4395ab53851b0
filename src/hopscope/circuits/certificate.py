"""The certificate: what makes a circuit more than a guess, part by part, on sequences no search has seen.

Every part says whether it passed, its numbers, its seed, and one sentence. Nothing is tuned here. A circuit that fails
a part is reported with the part it fails.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from hopscope.circuits.controls import harness, untrained
from hopscope.circuits.evidence import Evidence, Part, by_sequence, measured, tidy
from hopscope.circuits.form import IDENTITY, KEEP, POSITIONAL, RESAMPLE, UNIFORM, one_hot
from hopscope.circuits.hypotheses import Rows
from hopscope.theory.delivery import deliver
from hopscope.theory.depth import minimum_in_order, minimum_paths
from hopscope.theory.path import Row

_MOST = 0.9
"""Of the way from nothing to the model, what counts as almost all."""


def certify(evidence: Evidence, minimality: str, watch: Callable[[str], None] | None = None) -> dict[str, Part]:
    """Every part, in the order in which a reader asks."""
    tell = watch or (lambda name: None)
    parts: dict[str, Callable[[], Part]] = {
        "harness": lambda: harness(evidence),
        "sufficiency": lambda: sufficiency(evidence),
        "necessity": lambda: necessity(evidence),
        "random_keys": lambda: random_keys(evidence),
        "recovery": lambda: recovery(evidence),
        "families": lambda: families(evidence),
        "outside": lambda: outside(evidence),
        "completeness": lambda: completeness(evidence),
        "minimality": lambda: minimal(minimality, evidence),
        "deliverability": lambda: deliverability(evidence),
        "heads": lambda: heads(evidence),
        "untrained": lambda: untrained(evidence),
    }
    found = {}
    for name, judge in parts.items():
        tell(name)
        found[name] = {"seed": evidence.seed, **judge()}
    return found


def no_circuit(loss: float, bar: float, seed: int) -> dict[str, Part]:
    """The certificate of a model in which no circuit holds the bar."""
    why = (
        f"the model's own loss, {loss:.3f}, is above the bar of {bar:g}: it does not solve the problem, so there is no "
        "circuit to find"
        if loss > bar
        else f"the model's own loss, {loss:.3f}, is so close to the bar of {bar:g} that no circuit holds it for sure"
    )
    return {"sufficiency": {"passed": False, "says": why, "full_mse": tidy(loss), "bar": bar, "seed": seed}}


def sufficiency(evidence: Evidence) -> Part:
    """The circuit alone, everything else switched off, total and by hop; imposed forms and the model's own patterns."""
    programs: list[Rows] = [{}, evidence.program, evidence.natural, evidence.nothing]
    errors = evidence.evaluator.errors(programs).double()
    (full, _), (imposed, interval), (natural, natural_interval), (nothing, _) = measured(evidence, errors.mean(dim=2))
    hops = {}
    for index, hop in enumerate(evidence.problem.target_hops):
        mean, hop_interval = measured(evidence, errors[1:2, :, index])[0]
        hops[f"x{hop}"] = {"mse": mean, "interval": hop_interval, "full_mse": tidy(float(errors[0, :, index].mean()))}
    passed = imposed < evidence.bar and natural < evidence.bar
    return {
        "passed": passed,
        "says": f"the circuit alone has a loss of {imposed:.3f} with its patterns imposed and {natural:.3f} with the "
        f"model's own; the model has {full:.3f}, the bar is {evidence.bar:g}",
        "full_mse": full,
        "imposed_mse": imposed,
        "interval": interval,
        "natural_mse": natural,
        "natural_interval": natural_interval,
        "nothing_mse": nothing,
        "ratio": tidy(imposed / max(full, 1e-12)),
        "hops": hops,
        "sequences": evidence.evaluator.sequences,
    }


def necessity(evidence: Evidence) -> Part:
    """Every path ablated: from the natural circuit, from the imposed one, and from the model beside random rows."""
    natural: list[Rows] = [{**evidence.natural, row: UNIFORM} for row in evidence.rows]
    lost = measured(evidence, by_sequence(evidence.evaluator, natural))
    in_model: list[Rows] = [{row: UNIFORM} for row in evidence.rows]
    chosen = _some(evidence, "rows", evidence.outside)
    beside: list[Rows] = [{row: UNIFORM} for row in chosen]
    full, *rest = evidence.few.mse([{}, *in_model, *beside])
    changes = [tidy(value - full) for value in rest]
    needed = [interval[1] > evidence.bar for _, interval in lost]
    least = min((mean for mean, _ in lost), default=0.0)
    return {
        "passed": all(needed),
        "says": f"without any one of its {len(needed)} rows the circuit has a loss of at least {least:.3f}"
        if all(needed)
        else f"{needed.count(False)} of {len(needed)} rows can be done without on fresh sequences",
        "rows": [
            {"row": _name(evidence, row), "mse": mean, "interval": interval, "needed": need}
            for row, (mean, interval), need in zip(evidence.rows, lost, needed, strict=True)
        ],
        "change_in_model": changes[: len(in_model)],
        "change_of_random_rows": changes[len(in_model) :],
    }


def random_keys(evidence: Evidence) -> Part:
    """Each row pointed at another role instead, the rest making its own patterns: is it this key, or just any?

    Another key may serve as well where it holds the same symbol; more than a quarter of them must not.
    """
    programs: list[Rows] = []
    for row in evidence.rows:
        own = {path.key for path in evidence.paths if path.row == row}
        for other in range(evidence.evaluator.where.roles):
            if other not in own and other != row.query and bool(evidence.visible[row.query, other]):
                programs.append({**evidence.natural, row: one_hot(other)})
    losses = [tidy(loss) for loss in evidence.few.mse(programs)]
    holding = sum(loss <= evidence.bar for loss in losses)
    return {
        "passed": holding <= len(losses) / 4,
        "says": f"of {len(losses)} times that a row is pointed at another role, {holding} hold the bar",
        "mse": losses,
    }


def _way(nothing: float, loss: float, full: float) -> float:
    """How far a loss goes from that of nothing (0) to that of the model (1)."""
    return (nothing - loss) / max(nothing - full, 1e-12)


def recovery(evidence: Evidence) -> Part:
    """How much of the way from nothing to the model the circuit goes, beside random circuits of its size.

    A random circuit keeps as many rows, with the model's own patterns, and has everything else uniform.
    """
    generator = evidence.random("circuits")
    candidates = [*evidence.outside, *evidence.rows]
    drawn: list[Rows] = []
    for _ in range(evidence.effort.draws):
        chosen = torch.randperm(len(candidates), generator=generator).tolist()[: len(evidence.rows)]
        drawn.append({**evidence.nothing, **{candidates[number]: KEEP for number in chosen}})
    nothing, full, own, *random = evidence.few.mse([evidence.nothing, {}, evidence.natural, *drawn])
    mine, *others = (tidy(_way(nothing, loss, full)) for loss in (own, *random))
    return {
        "passed": mine > _MOST and mine > max(others),
        "says": f"the circuit goes {mine:.0%} of the way from nothing to the model; the best of {len(others)} random "
        f"circuits of its size goes {max(others):.0%}",
        "recovery": mine,
        "random": others,
        "p_value": tidy((1 + sum(other >= mine for other in others)) / (1 + len(others))),
    }


def families(evidence: Evidence) -> Part:
    """The circuit with everything else ablated in three ways, of which the search used only the first.

    `uniform`, `average` (each outside row's positional mean) and `resample` (its pattern on another sequence), with the
    model's own patterns inside; background rows stay what the circuit has there. Passed if the circuit keeps 90% of the
    way from nothing to the model each time. (The bar itself is spent by the search under `uniform`.)
    """
    ways = {"uniform": UNIFORM, "average": POSITIONAL, "resample": RESAMPLE, "identity": IDENTITY}
    free = [row for row in evidence.outside if evidence.program[row] == UNIFORM]
    programs: list[Rows] = [{**evidence.natural, **dict.fromkeys(free, edit)} for edit in ways.values()]
    nothing, full, *losses = evidence.few.mse([evidence.nothing, {}, *programs])
    kept = {name: tidy(_way(nothing, loss, full)) for name, loss in zip(ways, losses, strict=True)}
    judged = [name for name in ways if name != "identity"]
    return {
        "passed": all(kept[name] >= _MOST for name in judged),
        "says": "with everything else ablated the circuit keeps "
        + ", ".join(f"{kept[name]:.0%} ({name})" for name in judged)
        + f" of the way from nothing to the model; with identity, for information, {kept['identity']:.0%}",
        "mse": dict(zip(ways, map(tidy, losses), strict=True)),
        "kept": kept,
    }


def outside(evidence: Evidence) -> Part:
    """Random halves of what is outside the circuit, made uniform in the model: 90% of the way must be left."""
    generator = evidence.random("outside")
    free = [row for row in evidence.outside if evidence.program[row] == UNIFORM]
    programs: list[Rows] = []
    for _ in range(evidence.effort.draws):
        chosen = torch.randperm(len(free), generator=generator).tolist()[: len(free) // 2]
        programs.append({free[n]: UNIFORM for n in chosen})
    nothing, full, *losses = evidence.few.mse([evidence.nothing, {}, *programs])
    worst = max(losses)
    kept = _way(nothing, worst, full)
    return {
        "passed": kept >= _MOST,
        "says": f"the model without random halves of the other {len(free)} rows has a loss of at most {worst:.3f}",
        "kept": tidy(kept),
        "mse": [tidy(loss) for loss in losses],
    }


def completeness(evidence: Evidence) -> Part:
    """The same rows knocked out of the model and of the circuit: if the circuit is all there is, both suffer alike.

    Single rows and random subsets. Passed if the model without them is hurt at least half as much as the circuit, in
    the mean; less means that something outside the circuit steps in.
    """
    generator = evidence.random("completeness")
    subsets: list[list[Row]] = [[row] for row in evidence.rows]
    for _ in range(evidence.effort.draws):
        chosen = torch.rand(len(evidence.rows), generator=generator) < 0.5
        subset = [row for row, knocked in zip(evidence.rows, chosen.tolist(), strict=True) if knocked]
        subsets += [subset] if subset else []
    cut = [dict.fromkeys(subset, UNIFORM) for subset in subsets]
    full, own, *losses = evidence.few.mse([{}, evidence.natural, *cut, *({**evidence.natural, **c} for c in cut)])
    model = [tidy(loss - full) for loss in losses[: len(cut)]]
    circuit = [tidy(loss - own) for loss in losses[len(cut) :]]
    hurt = sum(model) / max(sum(circuit), 1e-12)
    return {
        "passed": hurt >= 0.5,
        "says": f"knocked out of the model, the same rows do {hurt:.0%} of the damage they do in the circuit",
        "share": tidy(hurt),
        "model": model,
        "circuit": circuit,
    }


def minimal(kind: str, evidence: Evidence) -> Part:
    """The kind of minimality reached, and the fewest paths any circuit can have (Theorem 5 of docs/theory.md)."""
    sentences = {
        "every subset": "no smaller part of the circuit holds the bar: every subset of its rows was tried",
        "pairs": "no circuit with one or two rows less holds the bar: every such part was tried",
    }
    places = {(path.layer, path.query, path.key) for path in evidence.paths}
    fewest = minimum_paths(evidence.problem.hops)
    return {
        "passed": kind in sentences,
        "says": sentences.get(kind, "not tried"),
        "kind": kind,
        "paths": len(evidence.paths),
        "distinct_steps": len(places),
        "fewest_in_theory": fewest,
    }


def deliverability(evidence: Evidence) -> Part:
    """Does information flow (Section 5), along these paths and no others, carry x{D} to the query?"""
    hops = evidence.problem.hops
    flow = deliver(hops, evidence.paths)
    return {
        "passed": flow.delivered,
        "says": f"its paths carry x{hops} to the query, under Assumptions 1 and 2" if flow.delivered else flow.broken,
        "growth": [list(held) for held in flow.growth],
        "refused": [path.describe(hops) for path in flow.refused],
        "idle": [path.describe(hops) for path in flow.idle],
        "delivered_if_waived": flow.delivered_if_waived,
    }


def heads(evidence: Evidence) -> Part:
    """How many heads and layers the circuit uses, and how few layers the theory needs."""
    used = sorted({(row.layer + 1, row.head + 1) for row in evidence.rows})
    layers = sorted({layer for layer, _ in used})
    needed = minimum_in_order(evidence.problem)
    return {
        "passed": len(layers) >= needed,
        "says": f"it uses {len(used)} heads in {len(layers)} layers; the theory needs {needed} layers"
        + ("" if len(layers) >= needed else ", so an assumption of the theory does not hold here"),
        "used": [list(head) for head in used],
        "layers_used": len(layers),
        "layers_needed": needed,
    }


def _some(evidence: Evidence, purpose: str, rows: list[Row]) -> list[Row]:
    order = torch.randperm(len(rows), generator=evidence.random(purpose)).tolist()
    return [rows[number] for number in order[: evidence.effort.draws]]


def _name(evidence: Evidence, row: Row) -> str:
    return f"layer {row.layer + 1} head {row.head + 1} {evidence.problem.roles[row.query]}"
