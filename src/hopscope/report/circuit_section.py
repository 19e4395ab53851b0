"""Section 8 in the report: the circuits of the followed runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hopscope.circuits.find import record_path
from hopscope.circuits.record import Circuit, CircuitPath
from hopscope.experiments.circuit_claims import judge_circuits
from hopscope.report.circuit_figure import circuit_figure
from hopscope.report.page import PageFigure, Section, Table
from hopscope.report.style import save
from hopscope.training.run_folder import RunFolder


def write_circuits(folder: Path, preset: str, run: RunFolder) -> tuple[list[Section], list[dict[str, Any]]]:
    """Draw the circuits of a run into `folder / "figures"`, and judge C7 to C11.

    Returns:
        sections of the page and findings; none where no circuit has been looked for.

    Raises:
        InputError: a record is damaged.
    """
    paths = [record_path(run, number) for number in range(len(run.seeds))]
    circuits = [Circuit.load(path) for path in paths if path.exists()]
    if not circuits:
        return [], []
    shape = f"{run.recipe.layers} layers x {run.recipe.heads} heads"
    scale = f"{preset}: D = {run.problem.hops}, {shape}, {len(circuits)} seeds"
    return [_section(folder, run, circuits)], judge_circuits(circuits, scale, os.path.relpath(run.path, folder))


def _section(folder: Path, run: RunFolder, circuits: list[Circuit]) -> Section:
    figures = []
    rows: list[list[object]] = []
    for circuit in circuits:
        stem = folder / "figures" / f"circuit-{circuit.number}"
        save(circuit_figure(circuit), stem)
        state = "certified" if circuit.certified else "not certified in every part" if circuit.found else "none found"
        figures.append(PageFigure(stem, f"Circuit of seed {circuit.seed} (as Figure 5): {state}."))
        rows += [_row(circuit.seed, path) for path in circuit.paths]
    heads = ", ".join(str(len(circuit.used_heads)) for circuit in circuits)
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"The circuits of the {run.recipe.layers}-layer models, found by exact search and certified on sequences "
            f"that the search never saw. Heads in use: {heads} of {run.recipe.layers * run.recipe.heads}. "
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
