"""Section 9's open question in the report: does handing a model its first head remove the plateau?"""

from __future__ import annotations

from pathlib import Path

from hopscope.files import write_json
from hopscope.paper.depth import history
from hopscope.plot.style import save
from hopscope.plot.training_figure import training_figure
from hopscope.report.page import PageFigure, Section, Table
from hopscope.studies.held_head import answer, arms
from hopscope.training.run import Run


def write_held_head(folder: Path, free: Run) -> list[Section]:
    """Judge and draw the study in `folder / "held-head"`; nothing while it is not finished.

    Raises:
        InputError: the folder holds another study.
    """
    runs = arms(free, folder / "held-head")
    if runs is None:
        return []
    found = answer(runs)
    write_json(folder / "held-head.json", found)
    stem = folder / "figures" / "held-head"
    save(training_figure([history(run) | {"title": name} for name, run in runs.items()]), stem)
    rows = [
        [
            name,
            seed,
            _step(arm["left"][number]),
            *(_step(step) for step in arm["learned"][number]),
            f"{runs[name].result.models[number].final_validation_loss:.3f}",
        ]
        for name, arm in found["arms"].items()
        for number, seed in enumerate(free.seeds)
    ]
    hops = [f"x{hop} learned" for hop in free.problem.target_hops]
    return [
        Section(
            "Handing the model its first head",
            paragraphs=[
                f"{found['sentence']} The rule: removed if it is left within a tenth of the steps that the free model "
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
                    rows,
                    "A hop counts as learned at the first step at which its partial loss is below 0.5.",
                )
            ],
        )
    ]


def _step(step: int | None) -> str:
    return "never" if step is None else str(step)
