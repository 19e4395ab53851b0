"""The report: one HTML page that needs nothing but itself, with the claims table, figures and how to rerun.

Everything is inlined; the page forbids its own reader every script and every load (Content-Security-Policy). Links lead
to run folders and to the figures' files beside the page, by relative paths.
"""

from __future__ import annotations

import base64
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hopscope.errors import InputError
from hopscope.files import write_text
from hopscope.paper.claims import VERDICTS, Finding
from hopscope.plot.style import FORMATS
from hopscope.version import VERSION

LARGEST_SVG = 2_000_000
"""A drawing larger than this, in bytes, goes into the page as its PNG."""

_PACKAGES = ("torch", "numpy", "matplotlib")


@dataclass(frozen=True)
class PageFigure:
    """A figure that `style.save` wrote.

    Args:
        stem: the path of its files without their endings; .svg or .png must be there.
        caption: what it shows and how to read it; `code` stands between backticks.
    """

    stem: Path
    caption: str


@dataclass(frozen=True)
class Table:
    """A table of text; columns of numbers are aligned."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    @property
    def numeric(self) -> list[bool]:
        """For every column, whether it holds only numbers."""
        return [all(_is_number(row[place]) for row in self.rows) for place in range(len(self.header))]


@dataclass(frozen=True)
class Section:
    """A part of the page: paragraphs (plain text, `code` between backticks), then figures, then tables."""

    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[PageFigure] = ()
    tables: Sequence[Table] = ()


def write_page(
    path: Path,
    title: str,
    lead: str,
    claims: Sequence[Finding],
    sections: Sequence[Section],
    rerun: Sequence[str],
    *,
    made: datetime | None = None,
    explorer: str | None = None,
) -> None:
    """Write the page, atomically.

    Args:
        path: the HTML file; links are relative to its folder.
        title: the title of the page.
        lead: the first sentences, under the title.
        claims: the rows of the claims table, in order.
        sections: the sections that follow the table.
        rerun: shell commands that make the page again.
        made: the date to show; None for now.
        explorer: the explorer's file, relative to the page; None where there is none.

    Raises:
        InputError: a figure has no file.
    """
    made = (made or datetime.now(UTC)).astimezone(UTC)
    counts = Counter(claim.verdict for claim in claims)
    html = _environment().get_template("page.html").render(
        title=title,
        lead=lead,
        claims=[(claim, _interval(claim.interval), _link(claim.run), _preset(claim)) for claim in claims],
        verdicts=[(verdict, counts[verdict]) for verdict in VERDICTS],
        sections=[(section, [_drawn(figure, path.parent) for figure in section.figures]) for section in sections],
        rerun="\n".join(rerun),
        made=made,
        explorer=_link(explorer),
        versions=_versions(),
    )  # fmt: skip
    write_text(path, html)


def inline(text: object) -> Markup:
    """Escaped text with `code` between backticks, and the paper's few formulas set as such: x1, 3^t, log3(D), 1..4.

    >>> inline("x1 < `a`")
    Markup('<var>x</var><sub>1</sub> &lt; <code>a</code>')
    """
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is a backtick
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


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hopscope.paper"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = inline
    return environment


def _interval(interval: str | tuple[float, float] | None) -> str:
    if interval is None or isinstance(interval, str):
        return interval or ""
    low, high = interval
    return f"{low:.3g} to {high:.3g}"


def _preset(claim: Finding) -> str:
    """The preset whose verdict it is, where the finding comes from training at that preset's scale; else empty."""
    name, colon, _ = claim.scale.partition(":")
    return name if colon and claim.verdict != "not run" else ""


def _link(run: str | None) -> str | None:
    """A relative path as a link; anything else is no link."""
    if not run:
        return None
    path = PurePosixPath(run)
    if path.is_absolute() or ":" in run or "\\" in run:
        return None
    return "./" + quote(str(path))


def _is_number(cell: object) -> bool:
    return re.fullmatch(r"[-+−]?[\d.,]+(e-?\d+)?\s?%?|–|", str(cell).strip()) is not None


def _drawn(figure: PageFigure, folder: Path) -> dict[str, Any]:
    files = {suffix: figure.stem.with_name(f"{figure.stem.name}.{suffix}") for suffix in FORMATS}
    there = {suffix: file for suffix, file in files.items() if file.is_file()}
    svg, png = there.get("svg"), there.get("png")
    if svg is not None and (png is None or svg.stat().st_size <= LARGEST_SVG):
        drawing, width = _inline_svg(svg.read_text(encoding="utf-8"), figure.stem.name, figure.caption)
    elif png is not None:
        drawing, width = _inline_png(png.read_bytes(), figure.caption)
    else:
        raise InputError(f"{files['svg']} does not exist, nor does its PNG; draw the figure before the page")
    links = [(suffix, quote(Path(os.path.relpath(file, folder)).as_posix())) for suffix, file in there.items()]
    return {"caption": figure.caption, "drawing": drawing, "width": width, "links": links}


def _inline_svg(svg: str, name: str, alt: str) -> tuple[Markup, int]:
    """The drawing as an element of the page, and its width in pixels; its ids are made unique to it."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    match = re.search(r"<svg\b[^>]*>", svg)
    size = re.search(r'\bviewBox="0 0 ([\d.]+) ([\d.]+)"', match[0]) if match else None
    if match is None or size is None:
        raise InputError(f"the drawing {name}.svg is not one that hopscope made; draw it again")
    body = svg[match.end() :]
    prefix = re.sub(r"\W", "-", name)
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'href="#', f'href="#{prefix}-', body)
    body = body.replace("url(#", f"url(#{prefix}-")
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(size[1], size[2], alt)
    return head + Markup(body), round(float(size[1]) * 96 / 72)


def _inline_png(png: bytes, alt: str) -> tuple[Markup, int]:
    width = int.from_bytes(png[16:20], "big")
    data = base64.b64encode(png).decode()
    element = Markup('<img src="data:image/png;base64,{}" alt="{}">').format(data, alt)
    return element, round(width * 96 / 200)


def _versions() -> list[tuple[str, str]]:
    found = [("hopscope", VERSION), ("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
