"""The report: one self-contained HTML page with figures, the table of claims and the command to rerun.

Everything is inlined, and the page's Content-Security-Policy forbids scripts and external resources. Relative links
lead to run folders and to the files of the figures beside the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hopscope.paper.claims import Finding, stored
from hopscope.plot.style import save
from hopscope.records import write_text
from hopscope.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page; `name` is the name of its files without the extension."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the page: paragraphs (plain text, `code` between backticks), then figures."""

    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[PageFigure] = ()


def write_page(path: Path, scale: str, claims: Sequence[Finding], sections: Sequence[Section], rerun: str) -> None:
    """Write the page atomically: the sections, the table of claims, and links to claims.json and the explorer.

    `scale` is the size of the study in words; `rerun` is the shell command that makes the page again. Figures go to
    `figures/` beside the page. The findings of the stored runs are shown beside the claims.
    """
    figures = path.parent / "figures"
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("hopscope.paper"), autoescape=True, **options)
    environment.filters["inline"] = inline
    packages = [(name, version(name)) for name in ("torch", "numpy", "matplotlib")]
    html = environment.get_template("page.html").render(
        scale=scale,
        claims=list(zip(claims, stored(), strict=True)),
        sections=[(section, [_drawn(figure, figures) for figure in section.figures]) for section in sections],
        rerun=rerun,
        made=datetime.now(UTC),
        explorer=(path.parent / "explorer.html").exists(),
        versions=[("hopscope", VERSION), ("Python", python_version()), *packages],
    )  # fmt: skip
    write_text(path, html)


def inline(text: object) -> Markup:
    """Return text as escaped HTML, with code (in backticks) and formulas (x1, 3^t, log3(D), 1..4) marked up.

    >>> inline("x1 < `a`")
    Markup('<var>x</var><sub>1</sub> &lt; <code>a</code>')
    """
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick stays a backtick
        parts[-2:] = ["`".join(parts[-2:])]
    for place, part in enumerate(parts):
        parts[place] = f"<code>{part}</code>" if place % 2 else _formulas(part)
    return Markup("".join(parts))


def _formulas(text: str) -> str:
    text = re.sub(r"\bx(\d|D)\b", r"<var>x</var><sub>\1</sub>", text)
    text = re.sub(r"\b(\d)\^(\w+)", r"\1<sup>\2</sup>", text)
    text = re.sub(r"(\d)\.\.(\d)", "\\1–\N{WORD JOINER}\\2", text)
    text = re.sub(r"(\w) x (\d)", r"\1 × \2", text)
    text = re.sub(r"\blog([23])(?=[ (])", r"log<sub>\1</sub>", text)
    text = text.replace("&lt;=", "≤").replace("&gt;=", "≥")
    text = re.sub(r"\b([A-Za-z]) ([=≤≥]|&lt;|&gt;) (?=\S)", "\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", text)
    return re.sub(r"\b(Section|Figure|Appendix|Theorem) (?=\w)", "\\1\N{NO-BREAK SPACE}", text)


def _drawn(figure: PageFigure, folder: Path) -> dict[str, Any]:
    """Write the figure's files; return its SVG as an element of the page, its width in pixels, and links to them."""
    files = save(figure.figure, folder / figure.name)
    svg = next(file for file in files if file.suffix == ".svg").read_text(encoding="utf-8")
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    width, height = re.findall(r'<svg\b[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    prefix = re.sub(r"\W", "-", figure.name)  # ids are unique in the page
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found[0]}{prefix}-", body)
    start = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, figure.caption)
    links = [(file.suffix[1:], quote(f"{folder.name}/{file.name}")) for file in files]
    width = round(float(width) * 96 / 72)
    return {"caption": figure.caption, "drawing": start + Markup(body), "width": width, "links": links}
