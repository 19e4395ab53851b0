"""The tables of the page, which are visible even if no scripts run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import card_rows, imposed_words
from hopscope.emergence.history import Emergence
from hopscope.explorer.exhibit import Exhibit
from hopscope.training.metrics import Metrics


class PageTable(NamedTuple):
    """A table of the page."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(shown: Exhibit) -> list[PageTable]:
    """Return the tables of one model: the paths of its circuit, losses by hop, checks and card."""
    circuit, found = shown.circuit, list[PageTable]()
    if circuit is not None and circuit.found:
        found.append(_paths(circuit, shown.emergence))
    if shown.metrics is not None:
        found.append(_losses(shown.metrics, shown.number))
    return found + (judged(circuit) if circuit is not None else [])


def judged(circuit: Circuit) -> list[PageTable]:
    """Return the tables of the checks and of the card of a circuit, as far as they were measured."""
    found = list[PageTable]()
    if circuit.checks:
        checks = circuit.checks.values()
        rows = [(check.outcome, check.name.replace("_", " "), check.says) for check in checks]
        found.append(PageTable("the checks of the circuit", ("", "check", "what was found"), rows))
    if circuit.card is not None:
        numbers = card_rows(circuit.card)
        numbers += [("Appendix E", imposed_words(circuit.imposed))] if circuit.imposed else []
        found.append(PageTable("the card of the circuit", ("", "on sequences that the search never saw"), numbers))
    return found


def _paths(circuit: Circuit, emergence: Emergence | None) -> PageTable:
    rows = []
    for place, number in enumerate(births(circuit, emergence), start=1):
        path, history = circuit.paths[number], emergence.paths[number] if emergence else None
        step = history.crossing.step if history else None
        layer, head, query, key = path.path.names(circuit.roles)
        born = "never" if history and step is None else "–" if step is None else f"{step:,.0f}"
        rise = f"{history.change[-1]:+.3f}" if history else "–"
        known = str(place), f"{layer}.{head}", f"{query} → {key}", f"{path.weight:.2f}", born, rise
        rows.append((*known, f"{path.without_imposed.mean:.3f}", "; ".join(path.uses(circuit.roles))))
    header = ("birth", "head", "path", "attention", "born at step", "rise of loss, cut alone", "circuit without it")
    return PageTable("the paths of the circuit", (*header, "feeds"), rows)


def _losses(metrics: Metrics, model: int) -> PageTable:
    kept = np.unique(np.linspace(0, len(metrics) - 1, min(60, len(metrics))).round().astype(int))
    steps, losses = metrics.steps[kept].tolist(), metrics.partial_losses[kept, model].tolist()
    rows = [(f"{step:,}", *(f"{loss:.3f}" for loss in row)) for step, row in zip(steps, losses, strict=True)]
    return PageTable("validation losses by hop", ("step", *(f"x{hop}" for hop in metrics.hops)), rows)


def births(circuit: Circuit, emergence: Emergence | None) -> list[int]:
    """Return the numbers of the paths, from 0, in the order of emergence; paths that never cross 0.5 come last."""
    steps = [path.crossing.step for path in emergence.paths] if emergence else [None] * len(circuit.paths)
    late = [float("inf") if step is None else step for step in steps]
    return sorted(range(len(circuit.paths)), key=lambda n: (late[n], circuit.paths[n].path.layer, n))
