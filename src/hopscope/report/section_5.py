"""Section 5 in the report: how many layers D hops need."""

from __future__ import annotations

from pathlib import Path

from hopscope.plot.figure_3 import figure_3
from hopscope.plot.style import save
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.report.page import PageFigure, Section, Table
from hopscope.theory.depth import depths


def section(hops: int, figures: Path) -> Section:
    """The section with Theorem 1 beside the exact minima, and the flow of `hops` hops."""
    stem = figures / "flow"
    save(figure_3(RetrievalProblem(hops=hops)), stem)
    rows = [[row.hops, row.theorem_1, row.no_mask, row.causal] for row in map(depths, (1, 2, 3, 4, 5, 8, 16, 32, 64))]
    return Section(
        "How many layers D hops need (Section 5)",
        paragraphs=[
            "If a position can attend only to one that it already shares information with, and then learns all that "
            "the other knows, information spreads along the chain by a factor of three a layer at most. Theorem 1 "
            "follows; it is not tight. Under these two assumptions, for interleaved chains whose pair blocks stand "
            "deepest or shallowest first, the exact minimum is ceil(log3(4D + 1)) without a mask and floor(log2 D) + 2 "
            "under a causal one. `docs/theory.md` has the proofs, and what other orders change.",
        ],
        figures=[
            PageFigure(
                stem,
                f"What positions share before any layer, D = {hops} (as in Figures 3 and 8), and what the query can "
                "know after each, without a mask and under a causal one.",
            )
        ],
        tables=[Table(["D", "Theorem 1", "exact, no mask", "exact, causal"], rows, "Layers needed for D hops.")],
    )
