"""Section 9's open question in the report: does handing a model its first head remove the plateau?"""

from __future__ import annotations

from pathlib import Path

from hopscope.paper.held_head import Arm, HeldHeadResult
from hopscope.plot.style import save
from hopscope.plot.training import Panel, training
from hopscope.report.page import PageFigure, Section, Table


def section(result: HeldHeadResult, figures: Path) -> Section:
    """The section with the arms' losses over time, and when each seed leaves its plateau."""
    stem = figures / "held-head"
    save(training(*[Panel(arm.name, arm.metrics, result.log_every) for arm in result.arms]), stem)
    hops = [f"x{hop} learned" for hop in result.arms[0].metrics.hops]
    return Section(
        "Handing the model its first head",
        paragraphs=[
            f"{result.answer.sentence} The rule: removed if it is left within a tenth of the steps that the free model "
            "takes to leave it, in every seed; shortened if it is left sooner in every seed.",
        ],
        figures=[
            PageFigure(
                stem,
                "Losses over time, from the same seeds on the same data. Handed: head 1 of layer 1 looks at the "
                "token before, always. Control: it looks at its own position.",
            )
        ],
        tables=[
            Table(
                ["arm", "seed", "plateau left at step", *hops, "final loss"],
                [_row(arm, number) for arm in result.arms for number in range(len(arm.seeds))],
                "A hop counts as learned at the first step at which its partial loss is below 0.5.",
            )
        ],
    )


def _row(arm: Arm, number: int) -> list[object]:
    plateau, loss = arm.plateaus[number], arm.final_losses[number]
    steps = [_step(step) for step in (plateau.left, *plateau.learned)]
    return [arm.name, arm.seeds[number], *steps, "diverged" if loss is None else f"{loss:.3f}"]


def _step(step: int | None) -> str:
    return "never" if step is None else str(step)
