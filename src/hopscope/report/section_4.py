"""Section 4 in the report: language models on the text, where a benchmark stands in the reproduction's folder."""

from __future__ import annotations

from pathlib import Path

from hopscope.benchmark.points import Summary
from hopscope.paper.section_4 import BenchmarkResult
from hopscope.plot.figure_2 import figure_2
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section
from hopscope.words import counted


def section(result: BenchmarkResult, figures: Path) -> Section | None:
    """The section with Figure 2; None where no language model gave an acceptable answer."""
    points = result.summary.points if result.summary else ()
    if all(point.accuracy is None for point in points):
        return None
    save(figure_2(points), figures / "figure-2")
    models = len({point.model for point in points})
    caption = "Accuracy with 95% intervals; dashed: a random guess, dotted: the best shortcut (as Figure 2)."
    return Section(
        "Language models on the text (Section 4)",
        paragraphs=[
            f"{counted(models, 'language model')} asked the five formulations, untuned, {_how(result.summary)}; "
            "`docs/benchmark.md` says how.",
        ],
        figures=[PageFigure(figures / "figure-2", caption)],
    )


def _how(summary: Summary | None) -> str:
    """How they were asked, in words: in the paper's way, or with which changes."""
    changed = list(summary.settings.extensions.changed()) if summary else []
    effort = summary.settings.reasoning_effort if summary else None
    changed += [f"reasoning effort {effort}"] if effort not in (None, "none") else []
    return f"with {', '.join(changed)}" if changed else "without examples or room to reason"
