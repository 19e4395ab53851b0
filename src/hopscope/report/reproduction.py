"""The report of a reproduction: what stands in its folder, as figures, a table of claims and one page.

claims.json     the fifteen rows
summary.json    what every run of the depth study came to
figures/        PNG, SVG and PDF
report.html     the page
"""

from __future__ import annotations

from pathlib import Path

from hopscope.experiments.claims import Claim, complete, write_claims
from hopscope.experiments.depth import finished_runs
from hopscope.experiments.presets import Preset
from hopscope.experiments.theory_claims import theory_claims
from hopscope.report.benchmark_section import write_benchmark
from hopscope.report.circuit_section import write_circuits
from hopscope.report.depth_section import write_depth
from hopscope.report.emergence_section import write_emergence
from hopscope.report.held_head_section import write_held_head
from hopscope.report.page import write_page
from hopscope.report.theory_section import theory_section

LEAD = (
    "A reproduction of “Mechanism and Emergence of Stacked Attention Heads in Multi-Layer Transformers” "
    "(Mușat, ICLR 2025). A chain of D hops, x0 to xD, is scattered over a sequence with three others; a transformer "
    "is asked where each chain ends. Every number below was computed by the commands at the end of this page."
)


def write_report(folder: Path, preset: Preset) -> list[Claim]:
    """Write the report of what is finished in `folder`, and give its claims.

    Args:
        folder: of `hopscope reproduce`; its runs are in `sweep/`, and a benchmark of language models, where there
            is one, in `benchmark/`.
        preset: what was asked for.

    Raises:
        InputError: a run in the folder is damaged, or another than the preset's.
    """
    study = preset.depth
    depth = write_depth(folder, folder / "sweep", study)
    benchmark_sections, benchmark_findings = write_benchmark(folder)
    sections = [*benchmark_sections, theory_section(folder, study.hops), *depth.sections]
    found = [*benchmark_findings, *theory_claims(), *depth.findings]
    if study.followed is not None and (run := finished_runs(folder / "sweep", study).get(study.followed_name)):
        circuit_sections, judged = write_circuits(folder, preset.name, run)
        emergence = write_emergence(folder, preset.name, run)
        sections += [*circuit_sections, *emergence.sections, *write_held_head(folder, run)]
        # C12 is about transformer D and its numbers; a model of another size says nothing of them.
        found += [*judged, *(finding for finding in emergence.findings if finding["id"] != "C12")]
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
