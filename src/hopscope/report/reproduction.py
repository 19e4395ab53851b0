"""The report of a reproduction: what stands in its folder, as figures, a table of claims and one page.

claims.json     the fifteen rows
summary.json    what every run of the depth study came to
figures/        PNG, SVG and PDF
report.html     the page
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hopscope.experiments.claims import Claim, complete, write_claims
from hopscope.experiments.depth import DepthStudy, finished_runs, history, judge, summarise
from hopscope.experiments.presets import Preset
from hopscope.experiments.theory_claims import theory_claims
from hopscope.files import write_json
from hopscope.report.depth_figure import final_losses_figure, partial_losses_figure
from hopscope.report.page import PageFigure, Section, Table, write_page
from hopscope.report.style import save
from hopscope.report.training_figure import training_figure
from hopscope.theory.depth import depths

LEAD = (
    "A reproduction of “Mechanism and Emergence of Stacked Attention Heads in Multi-Layer Transformers” "
    "(Mușat, ICLR 2025). A chain of D hops, x0 to xD, is scattered over a sequence with three others; a transformer "
    "is asked where each chain ends. Every number below was computed by the commands at the end of this page."
)


def write_report(folder: Path, preset: Preset) -> list[Claim]:
    """Write the report of what is finished in `folder`, and give its claims.

    Args:
        folder: of `hopscope reproduce`; its runs are in `sweep/`.
        preset: what was asked for.

    Raises:
        InputError: a run in the folder is damaged, or another than the preset's.
    """
    sections, found = [], theory_claims()
    depth, findings = _depth(folder, preset.depth)
    sections += depth
    found += findings
    claims = complete(found)
    write_claims(folder / "claims.json", claims)
    write_page(
        folder / "report.html",
        title="The retrieval problem, reproduced",
        lead=f"{LEAD} Scale: `{preset.name}`, {preset.summary}.",
        claims=claims,
        sections=sections,
        rerun=[f"hopscope reproduce --preset {preset.name}", f"hopscope report {folder.as_posix()}"],
    )
    return claims


def _depth(folder: Path, study: DepthStudy) -> tuple[list[Section], list[dict[str, Any]]]:
    """Section 7."""
    runs = finished_runs(folder / "sweep", study)
    groups = [summarise(run, f"sweep/{name}") for name, run in runs.items()]
    write_json(folder / "summary.json", groups)
    if not groups:
        return [], []
    figures = [_final_losses(folder, study, groups)]
    with_curriculum = [group for group in groups if group["curriculum"]]
    if with_curriculum:
        save(partial_losses_figure(groups), folder / "figures" / "figure-4-right")
        figures.append(
            PageFigure(
                folder / "figures" / "figure-4-right",
                "Figure 4, right. The same with the implicit curriculum, hop by hop: later hops need more layers.",
            )
        )
        curves = [history(runs[Path(group["run"]).name]) for group in with_curriculum]
        save(training_figure(curves), folder / "figures" / "training")
        figures.append(
            PageFigure(
                folder / "figures" / "training",
                "Losses over time with the implicit curriculum, a panel for each number of layers: hops are learned "
                "in order. A mark shows where a hop falls below 0.5.",
            )
        )
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
    return [section], judge(study, groups, "sweep")


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
