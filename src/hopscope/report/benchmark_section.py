"""Section 4 in the report: language models on the text, where a benchmark stands in the reproduction's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hopscope.benchmark.points import Summary
from hopscope.paper.benchmark_claims import benchmark_claims
from hopscope.plot.benchmark_figure import benchmark_figure
from hopscope.plot.style import save
from hopscope.report.page import PageFigure, Section


def write_benchmark(folder: Path) -> tuple[list[Section], list[dict[str, Any]]]:
    """Draw what `hopscope benchmark --out FOLDER/benchmark` found, and judge C14 and C15.

    Without a benchmark there is nothing to draw, C14 is not run, and C15 is judged by a program that guesses.

    Returns:
        sections of the page and findings.

    Raises:
        InputError: the benchmark's summary is damaged.
    """
    benchmark = folder / "benchmark"
    summary = benchmark / "summary.json"
    if not summary.exists():
        return [], benchmark_claims()
    points = Summary.read(summary).points
    findings = [finding | {"run": "benchmark"} for finding in benchmark_claims(benchmark)]
    if not any(point.accuracy is not None for point in points):
        return [], findings
    stem = folder / "figures" / "figure-2"
    save(benchmark_figure(points), stem)
    models = len({point.model for point in points})
    caption = "Accuracy with 95% intervals; dashed: a random guess, dotted: the best shortcut (as Figure 2)."
    section = Section(
        "Language models on the text (Section 4)",
        paragraphs=[
            f"{models} language model{'s' if models > 1 else ''} asked the five formulations, untuned, "
            "without examples or room to reason; `docs/benchmark.md` says how.",
        ],
        figures=[PageFigure(stem, caption)],
    )
    return [section], findings
