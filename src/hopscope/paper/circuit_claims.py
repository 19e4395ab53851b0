"""Claims C6 to C11 (Section 8, Appendix E), judged by rule: C6 from losses, the others from records of circuits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from hopscope.circuits.compare import compare, first_head_ties_pairs
from hopscope.circuits.record import Circuit, CircuitPath
from hopscope.paper.claims import Finding, Verdict
from hopscope.training.run_records import ModelResult

_BAR = 0.05
"""The paper's own, whatever the bar a search was given."""

_LEARNED = 0.01
"""Transformers A, B and C have a validation loss below this (Section 8.2)."""


def judge_learned(models: Mapping[str, ModelResult], preset: str, run: str | None = None) -> dict[str, Any]:
    """The finding on C6, as plain values: reproduced where every model's final validation loss is below 0.01.

    Args:
        models: by name, what a finished run says of its model.
        preset: the scale's name.
        run: where the runs are, for the report.
    """
    if not models:
        return asdict(Finding("C6", "", None, "", "not run"))
    losses = [model.final_validation_loss for model in models.values()]
    words = ", ".join(
        f"{name} {'diverged' if loss is None else f'{loss:.4f}'}" for name, loss in zip(models, losses, strict=True)
    )
    held_out = ", ".join(
        "diverged"
        if model.held_out_loss is None
        else f"{model.held_out_loss:.4f} ± {1.96 * (model.held_out_standard_error or 0.0):.4f}"
        for model in models.values()
    )
    holds = all(loss is not None and loss < _LEARNED for loss in losses)
    ours = f"final validation MSE {words} (mean over the last 100 steps)"
    verdict: Verdict = "reproduced" if holds else "not reproduced"
    interval = f"on held-out sequences at the end: {held_out}"
    return asdict(Finding("C6", ours, interval, f"{preset}: transformers {', '.join(models)}", verdict, run))


def judge_circuits(circuits: Sequence[Circuit], scale: str, run: str | None = None) -> list[dict[str, Any]]:
    """Findings on C7 to C11, as plain values.

    C7 and C8 are reproduced where they hold for every model, C9 where every two circuits differ in more than the
    numbers of layers and heads, C10 where every circuit alone stays below 0.05, C11 where every path of every circuit
    takes it above: beyond the first layer in use with patterns imposed, in the first with the later patterns left to
    the model.

    Args:
        circuits: records of models, with a circuit or without. A model that solves the task, with a loss below 0.05,
            and has no circuit counts against every claim; one that does not solve it is left out, and that is said.
        scale: the preset's name, and in words what was trained.
        run: where the records are, for the report.
    """
    judges: dict[str, Callable[[list[Circuit]], tuple[str, str, bool] | None]] = {
        "C7": _few_heads,
        "C8": _first_ties,
        "C9": _differ,
        "C10": _alone,
        "C11": _needed,
    }
    solved = [circuit for circuit in circuits if circuit.found or _solves(circuit)]
    found = [circuit for circuit in solved if circuit.found]
    missing, unsolved = len(solved) - len(found), len(circuits) - len(solved)
    rows = []
    for claim, judge in judges.items():
        answer = judge(found) if found else None
        if answer is None:
            why = "no circuit was found" if solved and not found else ""
            verdict: Verdict = "not reproduced" if why and claim != "C9" else "not run"
            rows.append(asdict(Finding(claim, why, None, scale, verdict, run if why else None)))
            continue
        ours, interval, holds = answer
        if missing and claim != "C9":
            ours += f"; {missing} of {len(solved)} models have no circuit"
            holds = False
        if unsolved:
            ours += f"; {unsolved} of {len(circuits)} models had not learned the task"
        rows.append(asdict(Finding(claim, ours, interval, scale, "reproduced" if holds else "not reproduced", run)))
    return rows


def _solves(circuit: Circuit) -> bool:
    """Whether the whole model is under the bar."""
    loss = circuit.losses["full"]
    return loss is not None and loss < _BAR


def _few_heads(circuits: list[Circuit]) -> tuple[str, str, bool]:
    """At most half of the heads matter."""
    used = [len(circuit.used_heads) for circuit in circuits]
    of = [circuit.layers * circuit.heads for circuit in circuits]
    needed = [circuit.certificate["heads"]["layers_needed"] for circuit in circuits]
    ours = ", ".join(f"{mine} of {all_}" for mine, all_ in zip(used, of, strict=True))
    holds = all(2 * mine <= all_ for mine, all_ in zip(used, of, strict=True))
    return f"{ours} heads; {max(needed)} layers of one would suffice", _models(circuits), holds


def _first_ties(circuits: list[Circuit]) -> tuple[str, str, bool]:
    ties = sum(first_head_ties_pairs(circuit) for circuit in circuits)
    return f"in {ties} of {len(circuits)} circuits", _models(circuits), ties == len(circuits)


def _differ(circuits: list[Circuit]) -> tuple[str, str, bool] | None:
    if len(circuits) < 2:
        return None
    pairs = [compare(first, second) for first, second in combinations(circuits, 2)]
    differ = sum(not pair.same_order for pair in pairs)
    overlaps = [pair.step_overlap for pair in pairs]
    ours = (
        f"{differ} of {len(pairs)} pairs of circuits differ in more than the numbers of layers and heads; "
        f"{min(overlaps):.0%} to {max(overlaps):.0%} of their steps are shared"
    )
    return ours, _models(circuits), differ == len(pairs)


def _alone(circuits: list[Circuit]) -> tuple[str, str, bool]:
    parts = [circuit.certificate["sufficiency"] for circuit in circuits]
    losses = [part["imposed_mse"] for part in parts]
    ours = "MSE " + ", ".join(f"{loss:.3f}" for loss in losses) + " with everything else ablated"
    interval = ", ".join(f"{part['interval'][0]:.3f} to {part['interval'][1]:.3f}" for part in parts)
    return ours, interval, all(loss < _BAR for loss in losses)


def _needed(circuits: list[Circuit]) -> tuple[str, str, bool]:
    first: list[CircuitPath] = []
    later: list[CircuitPath] = []
    for circuit in circuits:
        lowest = min(path.layer for path in circuit.paths)
        for path in circuit.paths:
            (first if path.layer == lowest else later).append(path)
    ours = (
        f"MSE {_range([path.ablation_mse for path in later])} with one path ablated; first useful layer: "
        f"{_range([path.ablation_mse for path in first])} with later patterns imposed, "
        f"{_range([path.natural_mse for path in first])} with the model's own"
    )
    intervals = [path.interval for path in later]
    widest = max((high - low for low, high in intervals), default=0.0)
    holds = all(path.ablation_mse > _BAR for path in later) and all(path.natural_mse > _BAR for path in first)
    return ours, f"95% intervals up to {widest:.3f} wide", holds


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def _models(circuits: Sequence[Circuit]) -> str:
    return "1 model" if len(circuits) == 1 else f"{len(circuits)} models"
