"""The report of a reproduction: what stands in its folder, as figures, a table of claims and one page.

claims.json     the fifteen rows
summary.json    what every run of the depth study came to
figures/        PNG, SVG and PDF
report.html     the page
"""

from __future__ import annotations

from pathlib import Path

from hopscope.paper.circuit_claims import judge_learned
from hopscope.paper.claims import Claim, complete, write_claims
from hopscope.paper.presets import Preset
from hopscope.paper.theory_claims import theory_claims
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
        folder: of `hopscope reproduce`; a benchmark of language models, where there is one, is in `benchmark/`.
        preset: what was asked for.

    Raises:
        InputError: a run in the folder is damaged, or another than the preset's.
    """
    study = preset.depth
    depth = write_depth(folder, folder / "sweep", study)
    benchmark_sections, benchmark_findings = write_benchmark(folder)
    sections = [*benchmark_sections, theory_section(folder, study.hops), *depth.sections]
    found = [*benchmark_findings, *theory_claims(), *depth.findings]
    if compared := preset.finished(folder, preset.compared):
        circuit_sections, judged = write_circuits(folder, preset.name, compared)
        sections += circuit_sections
        found += judged
    for run in preset.finished(folder, preset.watched):
        emergence = write_emergence(folder, preset.name, run)
        sections += [*emergence.sections, *write_held_head(folder, run)]
        found += emergence.findings
    if preset.transformers:
        models = {run.path.name.upper(): run.result.models[0] for run in compared}
        found.append(judge_learned(models, preset.name, "transformers"))
    else:
        # C12 is about transformer D and its numbers; a model of another size says nothing of them.
        found = [finding for finding in found if finding["id"] != "C12"]
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
