"""Section 7 in the report: training by depth, as Figure 4 and the losses over time."""

from __future__ import annotations

from pathlib import Path

from hopscope.paper.groups import Group
from hopscope.paper.section_7 import DepthResult
from hopscope.plot.figure_4 import final_losses, partial_losses
from hopscope.plot.style import save
from hopscope.plot.training import Panel, training
from hopscope.report.page import PageFigure, Section, Table
from hopscope.theory.depth import depths, reach
from hopscope.words import counted


def section(result: DepthResult, figures: Path) -> Section | None:
    """The section with the figures of Section 7 and a table of every run; None where nothing is finished."""
    if not result.groups:
        return None
    drawn = [_final_losses(result, figures)]
    if any(group.curriculum for group in result.groups):
        drawn.append(_partial_losses(result, figures))
    if result.curves:
        drawn.append(_training(result, figures))
    return Section(
        "Training by depth (Section 7)",
        paragraphs=[
            "With the implicit curriculum (IC) a query is asked for every symbol of its chain, without it for the last "
            "alone. A loss of 1 is knowing nothing; 0.75 is knowing the four candidates and not which, the plateau on "
            "which training starts.",
            _theory_says(result.study.layers),
        ],
        figures=drawn,
        tables=[_table(result)],
    )


def _partial_losses(result: DepthResult, figures: Path) -> PageFigure:
    stem = figures / "figure-4-right"
    save(partial_losses(result.groups, {hop: depths(hop).causal for hop in range(1, result.study.hops + 1)}), stem)
    return PageFigure(
        stem,
        "Figure 4, right. The same with the implicit curriculum, hop by hop. Dotted lines, in the colour of their hop: "
        "the exact minimum depth floor(log2 k) + 2 of hop k (under Assumptions 1 and 2, deepest or shallowest pairs "
        "first), left of which theory lets no run learn it.",
    )


def _training(result: DepthResult, figures: Path) -> PageFigure:
    stem = figures / "training"
    every = result.study.recipe.log_every
    save(training(*[Panel(counted(layers, "layer"), metrics, every) for layers, metrics in result.curves]), stem)
    return PageFigure(
        stem,
        "Losses over time with the implicit curriculum, a panel for each number of layers. A mark shows where a hop "
        "falls below 0.5.",
    )


def _final_losses(result: DepthResult, figures: Path) -> PageFigure:
    study, exact = result.study, depths(result.study.hops)
    lines = {f"Theorem 1, D = {study.hops}": exact.theorem_1, f"exact causal minimum, D = {study.hops}": exact.causal}
    shown = {label: layers for label, layers in lines.items() if layers <= max(study.layers, default=0)}
    save(final_losses(result.groups, shown), figures / "figure-4-left")
    return PageFigure(
        figures / "figure-4-left",
        "Figure 4, left. Final validation loss (mean over the last "
        f"{study.recipe.final_steps} steps) by number of layers; line: mean over the seeds on the scale, band: lowest "
        "to highest of them, dots: seeds. Vertical lines: how many layers the theory asks for.",
    )


def _theory_says(layers: tuple[int, ...]) -> str:
    reached = ", ".join(f"{counted(number, 'layer')} {counted(reach(number), 'hop')}" for number in layers)
    return (
        "The exact minimum depth under a causal mask, floor(log2 D) + 2 (under Assumptions 1 and 2, deepest or "
        "shallowest pairs first), says how far each can reach: "
        f"{reached}. Theorem 1, a lower bound, would allow more."
    )


def _table(result: DepthResult) -> Table:
    hops = range(1, result.study.hops + 1)
    return Table(
        header=["", "layers", "seed", "final loss", *(f"x{hop}" for hop in hops), "below 0.5 at step"],
        rows=[_row(group, model, hops) for group in result.groups for model in range(len(group.seeds))],
        caption="Every run: final validation loss, its part for each hop asked for, and when each was learned.",
    )


def _row(group: Group, model: int, hops: range) -> list[object]:
    losses = dict(zip(group.asked, group.final_partial_losses[model], strict=True))
    steps = ["never" if step is None else str(step) for step in group.crossings[model]]
    return [
        "IC" if group.curriculum else "no IC",
        group.layers,
        group.seeds[model],
        _number(group.final_validation_loss[model]),
        *(_number(losses[hop]) if hop in losses else "–" for hop in hops),
        " · ".join(steps),
    ]


def _number(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.3f}"
