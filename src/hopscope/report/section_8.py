"""Section 8 in the report: circuits, found and compared."""

from __future__ import annotations

from pathlib import Path

from hopscope.circuits.record.circuit import Circuit
from hopscope.circuits.record.elements import CircuitPath
from hopscope.paper.section_8 import CircuitResult
from hopscope.plot.figure_5 import figure_5
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section, Table

_NUMBERS = "Numbers: loss of the circuit without the path, with the model's own patterns."


def section(result: CircuitResult, figures: Path) -> Section | None:
    """The section with a drawing of every circuit and a table of its paths; None where no circuit was searched for."""
    found = [(model.name, model.circuit) for model in result.models if model.circuit]
    if not found:
        return None
    drawn = []
    rows: list[list[object]] = []
    for name, circuit in found:
        alone = len(result.study.setups) == 1
        stem = figures / f"circuit-{circuit.number if alone else name}"
        save(figure_5(circuit), stem)
        drawn.append(PageFigure(stem, f"Circuit of seed {circuit.seed} (as Figure 5): {_state(circuit)}. {_NUMBERS}"))
        rows += [_row(circuit, one) for one in circuit.paths]
    certified = sum(bool(circuit.certified) for _, circuit in found)
    heads = ", ".join(str(len(circuit.used_heads)) for _, circuit in found)
    layers, of = found[0][1].layers, found[0][1].layers * found[0][1].heads
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"The circuits of the {layers}-layer models, {certified} of {len(found)} certified on sequences that the "
            f"search never saw. Heads in use: {heads} of {of}. "
            f"`hopscope circuit RUN --show` prints them with every part of their certificates; "
            "`docs/circuits.md` says what the parts mean.",
        ],
        figures=drawn,
        tables=[
            Table(
                ["seed", "layer", "head", "path", "attention", "loss without it, imposed", "own patterns", "feeds"],
                rows,
                "Paths: mean attention in the model; loss of the circuit without the path, with its patterns imposed "
                "and with the model's own; and what uses it.",
            )
        ]
        if rows
        else [],
    )


def _state(circuit: Circuit) -> str:
    return circuit.verdict if circuit.found else "none found"


def _row(circuit: Circuit, one: CircuitPath) -> list[object]:
    layer, head, query, key = one.path.names(circuit.roles)
    uses = ", ".join(one.uses(circuit.roles)) or "–"
    losses = [f"{one.ablation_mse:.3f}", f"{one.natural_mse:.3f}"]
    return [circuit.seed, layer, head, f"{query} to {key}", f"{one.weight:.3f}", *losses, uses]
