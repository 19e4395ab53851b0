"""The report of a reproduction: `report.html`, the table of claims; `figures/` (PNG, SVG, PDF); `explorer.html`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from hopscope.explorer.gather import exhibit
from hopscope.explorer.page import build
from hopscope.files import write_text
from hopscope.paper.reproduce import Reproduction
from hopscope.report import held_head, section_4, section_5, section_7, section_8, section_9
from hopscope.report.page import Section, write_page
from hopscope.training.run import RunFolder

LEAD = (
    "A reproduction of “Mechanism and Emergence of Stacked Attention Heads in Multi-Layer Transformers” "
    "(Mușat, ICLR 2025). A chain of D hops, x0 to xD, is scattered over a sequence with three others; a transformer "
    "is asked where each chain ends. Every number below was computed by the commands at the end of this page."
)


def write_report(found: Reproduction) -> Path:
    """Draw what was found into its folder, and write the page; return the page's path."""
    figures = found.folder / "figures"
    sections: list[Section | None] = [
        section_4.section(found.benchmark, figures),
        section_5.section(found.preset.depth.hops, figures),
        section_7.section(found.depth, figures),
        section_8.section(found.circuits, figures),
        section_9.section(found.emergence, figures),
        *(held_head.section(result, figures) for result in found.held_head),
    ]
    name = found.preset.name
    explorer = _write_explorer(found)
    page = found.folder / "report.html"
    write_page(
        page,
        title="The retrieval problem, reproduced",
        lead=f"{LEAD} Scale: `{name}`, {found.preset.summary}.",
        claims=found.claims,
        explorer=explorer,
        sections=[section for section in sections if section],
        rerun=_rerun(found),
    )
    return page


def _rerun(found: Reproduction) -> list[str]:
    """The commands that make all of it, and that draw it anew, in its folder."""
    name, folder = found.preset.name, found.folder.as_posix()
    out = "" if folder == f"runs/{name}" else f" --out {quote(folder)}"
    told = "" if found.folder.name == name else f" --preset {name}"
    return [f"hopscope reproduce --preset {name}{out}", f"hopscope report {quote(folder)}{told}"]


def _write_explorer(found: Reproduction) -> str | None:
    """Write the explorer of the first model that was followed, beside the report; None where no such run is there."""
    for one in found.emergence.followed:
        path = found.folder / found.emergence.study.at / one.model.setup.name
        if one.final is None or not (path / "run.json").exists():
            continue
        write_text(found.folder / "explorer.html", build([exhibit(RunFolder(path), one.model.number)]).html)
        return "explorer.html"
    return None
