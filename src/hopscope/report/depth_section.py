"""Section 7 in the report: training by depth, as Figure 4 and the losses over time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.files import write_json
from hopscope.paper.depth import DepthStudy, history, judge, summarise
from hopscope.plot.depth_figure import final_losses_figure, partial_losses_figure
from hopscope.plot.style import save
from hopscope.plot.training_figure import training_figure
from hopscope.report.page import PageFigure, Section, Table
from hopscope.theory.depth import depths
from hopscope.training.many import finished


@dataclass(frozen=True)
class Depth:
    """The depth study in the report.

    Attributes:
        groups: what every run came to.
        findings: on C3, C4 and C5.
        sections: of the page; none where nothing is finished.
    """

    groups: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    sections: list[Section]


def write_depth(folder: Path, sweep: Path, study: DepthStudy) -> Depth:
    """Write `summary.json` and the figures of Section 7 into `folder`, from the finished runs in `sweep`.

    Raises:
        InputError: a run there is damaged, or another than the study's.
    """
    runs = finished(study.setups(), sweep)
    groups = [summarise(run, os.path.relpath(run.path, folder)) for run in runs.values()]
    write_json(folder / "summary.json", groups)
    if not groups:
        return Depth([], [], [])
    figures = [_final_losses(folder, study, groups)]
    curves = [history(run) for run in runs.values() if run.problem.curriculum]
    if curves:
        figures += [_partial_losses(folder, study, groups), _training(folder, curves)]
    section = Section(
        "Training by depth (Section 7)",
        paragraphs=[
            "With the implicit curriculum (IC) a query is asked for every symbol of its chain, without it for the last "
            "alone. A loss of 1 is knowing nothing; 0.75 is knowing the four candidates and not which, the plateau on "
            "which training starts.",
            _theory_says(study),
        ],
        figures=figures,
        tables=[_table(study, groups)],
    )
    return Depth(groups, judge(study, groups, os.path.relpath(sweep, folder)), [section])


def _partial_losses(folder: Path, study: DepthStudy, groups: list[dict[str, Any]]) -> PageFigure:
    stem = folder / "figures" / "figure-4-right"
    save(partial_losses_figure(groups, {hop: depths(hop).causal for hop in range(1, study.hops + 1)}), stem)
    return PageFigure(
        stem,
        "Figure 4, right. The same with the implicit curriculum, hop by hop. Dotted lines, in the colour of their hop: "
        "the exact minimum depth floor(log2 k) + 2 of hop k, left of which theory lets no run learn it.",
    )


def _training(folder: Path, curves: list[dict[str, Any]]) -> PageFigure:
    stem = folder / "figures" / "training"
    save(training_figure(curves), stem)
    return PageFigure(
        stem,
        "Losses over time with the implicit curriculum, a panel for each number of layers: hops are learned in order. "
        "A mark shows where a hop falls below 0.5.",
    )


def _final_losses(folder: Path, study: DepthStudy, groups: list[dict[str, Any]]) -> PageFigure:
    exact = depths(study.hops)
    lines = {f"Theorem 1, D = {study.hops}": exact.theorem_1, f"exact causal minimum, D = {study.hops}": exact.causal}
    shown = {label: layers for label, layers in lines.items() if layers <= max(study.layers)}
    save(final_losses_figure(groups, shown), folder / "figures" / "figure-4-left")
    return PageFigure(
        folder / "figures" / "figure-4-left",
        "Figure 4, left. Final validation loss (mean over the last "
        f"{study.recipe.final_steps} steps) by number of layers; line: mean over seeds, band: lowest to highest, dots: "
        "seeds. Vertical lines: how many layers the theory asks for.",
    )


def _theory_says(study: DepthStudy) -> str:
    reach = ", ".join(
        f"{layers} layer{'s' if layers > 1 else ''} {_reach(layers)} hop{'s' if _reach(layers) != 1 else ''}"
        for layers in study.layers
    )
    return (
        "The exact minimum depth under a causal mask, floor(log2 D) + 2, says how far each can reach: "
        f"{reach}. Theorem 1, a lower bound, would allow more."
    )


def _reach(layers: int) -> int:
    """The most hops whose exact causal minimum is at most `layers`."""
    hops = 0
    while depths(hops + 1).causal <= layers:
        hops += 1
    return hops


def _table(study: DepthStudy, groups: list[dict[str, Any]]) -> Table:
    hops = range(study.hops)
    rows = []
    for group in groups:
        for seed, final, partial, crossings in zip(
            group["seeds"],
            group["final_validation_loss"],
            group["final_partial_losses"],
            group["crossings"],
            strict=True,
        ):
            asked = range(study.hops) if group["curriculum"] else [group["hops"] - 1]
            losses = dict(zip(asked, partial, strict=True))
            steps = dict(zip(asked, crossings, strict=True))
            rows.append(
                [
                    "IC" if group["curriculum"] else "no IC",
                    group["layers"],
                    seed,
                    _number(final),
                    *(_number(losses[hop]) if hop in losses else "–" for hop in hops),
                    " · ".join(str(step) if step is not None else "never" for step in steps.values()),
                ]
            )
    return Table(
        header=["", "layers", "seed", "final loss", *(f"x{hop + 1}" for hop in hops), "below 0.5 at step"],
        rows=rows,
        caption="Every run: final validation loss, its part for each hop asked for, and when each was learned.",
    )


def _number(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.3f}"
