"""Section 9 in the report: Figures 6 and 7, Appendix D, and claims C12 and C13."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.circuits.find import record_path
from hopscope.circuits.record import Circuit
from hopscope.emergence.history import Emergence
from hopscope.emergence.of_run import emergence_of_run
from hopscope.paper.emergence_claims import emergence_claims
from hopscope.plot.emergence_figure import crossing_figure, losses_figure, paths_figure
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section, Table
from hopscope.training.run import Run

_CAPTIONS = {
    "figure-6": "Figure 6. Losses over training; a mark shows where a hop falls below 0.5.",
    "figure-7": "Figure 7. The circuit, and the epoch at which the mean attention along each of its paths crosses 0.5 "
    "(bars: 95%, sequences resampled). Dotted: when the loss of a hop falls below 0.5.",
    "appendix-d": "Appendix D. Every path at every checkpoint: what it attends to, and what its absence costs.",
}


@dataclass(frozen=True)
class EmergenceInReport:
    """The emergence study in the report.

    Attributes:
        emergences: of the models that have a circuit.
        findings: on C12 and C13.
        sections: of the page; none where no model has a circuit.
    """

    emergences: list[Emergence]
    findings: list[dict[str, Any]]
    sections: list[Section]


def write_emergence(folder: Path, preset: str, run: Run) -> EmergenceInReport:
    """Follow the circuits of all models of a finished run that have one, and draw the first into `folder`.

    Raises:
        InputError: too few checkpoints, or a circuit of another run.
    """
    looked_at = [number for number in range(len(run.seeds)) if record_path(run, number).exists()]
    emergences = [emergence_of_run(run, n) for n in looked_at if Circuit.load(record_path(run, n)).found]
    losses = [run.result.models[number].final_validation_loss for number in looked_at]
    findings = emergence_claims(preset, emergences, losses, os.path.relpath(run.path, folder))
    if not emergences:
        return EmergenceInReport([], findings, [])
    stems = save_figures(run, emergences[0], folder / "figures")
    section = Section(
        "How heads emerge (Section 9)",
        paragraphs=[
            "The circuit found at the end of training is followed back through the checkpoints: how much its paths "
            "attend to what they will, and what their absence would cost there and then.",
        ],
        figures=[PageFigure(stem, _CAPTIONS[name]) for name, stem in stems.items()],
        tables=[_table(emergences)],
    )
    return EmergenceInReport(emergences, findings, [section])


def save_figures(run: Run, emergence: Emergence, folder: Path) -> dict[str, Path]:
    """Draw Figure 6 (if there are metrics), Figure 7 and Appendix D; gives their stems by name."""
    circuit = Circuit.load(record_path(run, emergence.number))
    figures = {"figure-6": losses_figure(run.metrics, emergence.number)} if len(run.metrics) else {}
    figures |= {"figure-7": crossing_figure(emergence, circuit), "appendix-d": paths_figure(emergence)}
    suffix = f"-model-{emergence.number}" if emergence.number else ""
    stems = {}
    for name, figure in figures.items():
        stems[name] = folder / f"{name}{suffix}"
        save(figure, stems[name])
    return stems


def _table(emergences: Sequence[Emergence]) -> Table:
    rows = [
        [
            emergence.seed,
            f"{path.layer}.{path.head}",
            f"{path.query} → {path.key}",
            "never" if path.crossing.step is None else f"{emergence.epoch(path.crossing.step):.1f}",
            f"{path.attention[-1]:.2f}",
            f"{path.change[-1]:+.2f}",
        ]
        for emergence in emergences
        for path in emergence.paths
    ]
    return Table(
        header=["seed", "head", "path", "emerges at epoch", "attention in the end", "loss without it"],
        rows=rows,
        caption="Every path of every circuit followed: when its attention crosses 0.5, and what it came to.",
    )
