"""Sections 8 and 9 in the report: circuits of the followed runs, and how they came to be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hopscope.circuits.record import CircuitPath
from hopscope.experiments.followed import Followed, followed, judge
from hopscope.report.circuit_figure import circuit_figure
from hopscope.report.emergence_figure import crossing_figure, losses_figure, paths_figure
from hopscope.report.page import PageFigure, Section, Table
from hopscope.report.style import save
from hopscope.training.run_folder import RunFolder


def write_followed(folder: Path, scale: str, run: RunFolder) -> tuple[list[Section], list[dict[str, Any]]]:
    """Draw the circuits of a run and their emergence into `folder / "figures"`.

    Returns:
        sections of the page and findings; none where no circuit has been looked for.
    """
    models = followed(run)
    if not models:
        return [], []
    sections = [_circuits(folder, run, models)]
    if any(model.emergence for model in models):
        sections.append(_emergence(folder, run, models))
    return sections, judge(scale, run, models, os.path.relpath(run.path, folder))


def _circuits(folder: Path, run: RunFolder, models: list[Followed]) -> Section:
    figures = []
    rows: list[list[object]] = []
    for model in models:
        circuit = model.circuit
        stem = folder / "figures" / f"circuit-{circuit.number}"
        save(circuit_figure(circuit), stem)
        state = "certified" if circuit.certified else "not certified in every part" if circuit.found else "none found"
        figures.append(PageFigure(stem, f"Circuit of seed {circuit.seed} (as Figure 5): {state}."))
        rows += [_row(circuit.seed, path) for path in circuit.paths]
    heads = ", ".join(str(len(model.circuit.used_heads)) for model in models)
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


def _emergence(folder: Path, run: RunFolder, models: list[Followed]) -> Section:
    figures = []
    for model in models:
        emergence = model.emergence
        if emergence is None:
            continue
        drawn = {
            f"figure-6-{emergence.number}": (
                losses_figure(run.metrics(), run.problem.target_hops, emergence.number),
                "Loss during training, and by hop (as Figure 6)",
            ),
            f"figure-7-{emergence.number}": (
                crossing_figure(emergence, model.circuit),
                "The circuit, and when mean attention along each path goes above 0.5 (as Figure 7)",
            ),
            f"appendix-d-{emergence.number}": (
                paths_figure(emergence),
                "Each path through training: mean attention, how often its key comes first, what its absence costs "
                "(as Appendix D)",
            ),
        }
        for name, (figure, caption) in drawn.items():
            save(figure, folder / "figures" / name)
            figures.append(PageFigure(folder / "figures" / name, f"{caption}; seed {model.circuit.seed}."))
    return Section(
        "Emergence of heads (Section 9)",
        paragraphs=[
            "Each circuit followed back through the checkpoints of its training. An epoch is "
            f"{run.recipe.steps_per_epoch} steps, the paper's unit of logging.",
        ],
        figures=figures,
    )


def _row(seed: int, path: CircuitPath) -> list[object]:
    uses = ", ".join(feed.describe() for feed in path.feeds) or "–"
    way = f"{path.query} to {path.key}"
    return [seed, path.layer, path.head, way, _number(path.weight), _number(path.ablation_mse), uses]


def _number(value: float) -> str:
    return f"{value:.3f}"
