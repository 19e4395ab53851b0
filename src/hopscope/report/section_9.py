"""Section 9 in the report: Figures 6 and 7, and Appendix D."""

from __future__ import annotations

from pathlib import Path

from hopscope.circuits.record.circuit import Circuit
from hopscope.emergence.history import Emergence
from hopscope.paper.section_9 import EmergenceResult
from hopscope.plot.appendix_d import appendix_d
from hopscope.plot.figure_6 import figure_6
from hopscope.plot.figure_7 import figure_7
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section, Table
from hopscope.training.metrics import Metrics

_CAPTIONS = {
    "figure-6": "Figure 6. Losses over training; a mark shows where a hop falls below 0.5.",
    "figure-7": "Figure 7. The circuit, and the epoch at which the mean attention along each of its paths crosses 0.5 "
    "(bars: 95%, sequences resampled). Dotted: when the loss of a hop falls below 0.5.",
    "appendix-d": "Appendix D. Every path at every checkpoint: what it attends to, and what its absence costs.",
}


def section(result: EmergenceResult, figures: Path) -> Section | None:
    """The section with the first model's figures and a table of all paths; None where no model has a circuit."""
    there = [(one, one.final) for one in result.followed if one.final and one.model.circuit]
    if not there:
        return None
    first, emergence = there[0]
    assert first.model.circuit is not None
    stems = save_figures(first.metrics, emergence, first.model.circuit, figures)
    return Section(
        "How heads emerge (Section 9)",
        paragraphs=[
            "The circuit found at the end of training is followed back through the checkpoints: how much its paths "
            "attend to what they will, and what their absence would cost there and then.",
        ],
        figures=[PageFigure(stem, _CAPTIONS[name]) for name, stem in stems.items()],
        tables=[_table([final for _, final in there])],
    )


def save_figures(metrics: Metrics | None, emergence: Emergence, circuit: Circuit, folder: Path) -> dict[str, Path]:
    """Draw Figure 6 (if there are metrics), Figure 7 and Appendix D; return the stems of their files by name."""
    figures = {"figure-6": figure_6(metrics, emergence.number)} if metrics is not None and len(metrics) else {}
    figures |= {"figure-7": figure_7(emergence, circuit), "appendix-d": appendix_d(emergence)}
    suffix = f"-model-{emergence.number}" if emergence.number else ""
    stems = {}
    for name, figure in figures.items():
        stems[name] = folder / f"{name}{suffix}"
        save(figure, stems[name])
    return stems


def _table(emergences: list[Emergence]) -> Table:
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
        header=["seed", "head", "path", "emerges at epoch", "attention in the end", "rise without it"],
        rows=rows,
        caption="Every path of every circuit followed: when its attention crosses 0.5, what it came to, and by how "
        "much the loss of the whole model rises without it.",
    )
