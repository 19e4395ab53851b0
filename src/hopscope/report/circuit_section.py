"""Section 8 in the report: circuits, found and compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hopscope.circuits.find import record_path
from hopscope.circuits.record import Circuit, CircuitPath
from hopscope.paper.circuit_claims import judge_circuits
from hopscope.plot.circuit_figure import circuit_figure
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section, Table
from hopscope.training.run import Run


def write_circuits(folder: Path, preset: str, runs: Sequence[Run]) -> tuple[list[Section], list[dict[str, Any]]]:
    """Draw the circuits of runs of one shape into `folder / "figures"`, and judge C7 to C11.

    Returns:
        sections of the page and findings; none where no circuit has been looked for.

    Raises:
        InputError: a record is damaged.
    """
    circuits = {}
    for run in runs:
        for number in range(len(run.seeds)):
            if (path := record_path(run, number)).exists():
                name = f"{number}" if len(runs) == 1 else f"{run.path.name}-{number}" if number else run.path.name
                circuits[name] = Circuit.load(path)
    if not circuits:
        return [], []
    found = list(circuits.values())
    evidence = os.path.relpath(runs[0].path if len(runs) == 1 else runs[0].path.parent, folder)
    return [_section(folder, circuits)], judge_circuits(found, _scale(preset, runs[0], len(found)), evidence)


def _scale(preset: str, run: Run, models: int) -> str:
    layers, heads = run.recipe.layers, run.recipe.heads
    shape = f"{layers} layers x {heads} head{'s' if heads > 1 else ''}"
    return f"{preset}: D = {run.problem.hops}, {shape}, {models} seed{'s' if models > 1 else ''}"


def _section(folder: Path, circuits: Mapping[str, Circuit]) -> Section:
    figures = []
    rows: list[list[object]] = []
    for name, circuit in circuits.items():
        stem = folder / "figures" / f"circuit-{name}"
        save(circuit_figure(circuit), stem)
        state = "certified" if circuit.certified else "not certified in every part" if circuit.found else "none found"
        figures.append(PageFigure(stem, f"Circuit of seed {circuit.seed} (as Figure 5): {state}."))
        rows += [_row(circuit.seed, path) for path in circuit.paths]
    heads = ", ".join(str(len(circuit.used_heads)) for circuit in circuits.values())
    first = next(iter(circuits.values()))
    layers, of = first.layers, first.layers * first.heads
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"The circuits of the {layers}-layer models, found by exact search and certified on sequences "
            f"that the search never saw. Heads in use: {heads} of {of}. "
            f"`hopscope circuit RUN --show` prints them with every part of their certificates; "
            "`docs/circuits.md` says what the parts mean.",
        ],
        figures=figures,
        tables=[
            Table(
                ["seed", "layer", "head", "path", "attention", "loss without it", "feeds"],
                rows,
                "Paths: mean attention in the model, loss of the circuit without the path, and what uses it.",
            )
        ]
        if rows
        else [],
    )


def _row(seed: int, path: CircuitPath) -> list[object]:
    uses = ", ".join(path.uses) or "–"
    way = f"{path.query} to {path.key}"
    return [seed, path.layer, path.head, way, _number(path.weight), _number(path.ablation_mse), uses]


def _number(value: float) -> str:
    return f"{value:.3f}"
