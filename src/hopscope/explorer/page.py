"""The page as one file, made from sources, data and tables; the same inputs give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from hopscope.checks import check_folder, check_outside_runs
from hopscope.errors import InputError
from hopscope.explorer.exhibit import Exhibit, exhibits
from hopscope.explorer.manifest import Arrays, manifest
from hopscope.explorer.tables import tables
from hopscope.records import read_bytes, write_text
from hopscope.training.run import RunFolder
from hopscope.version import VERSION

SCRIPTS = (
    "bytes", "network", "prompt", "program", "flow", "state", "model", "worker", "dom", "redraw", "paper", "circuit",
    "knowledge", "axis", "time", "heads", "inspector", "save", "main", "tools", "boot",
)  # fmt: skip
"""The sources of the page's program, in order; all sources except `boot` only define functions and values."""

STYLES = ("base", "layout", "views", "print")

PAGE = "explorer.html"
"""The file name of a run's page in the run folder."""

_MADE_HERE, _HEAD = (b'<meta name="generator" content="hopscope ', b"worker-src blob:"), 4096
"""Two marks that only pages of the explorer have, and the number of bytes at the start of a page that have them."""

LARGEST = 25_000_000
"""The largest page in bytes that is written without `large`: browsers open larger pages slowly."""


@dataclass(frozen=True)
class Page:
    """A page, and the number of bytes of each of its parts."""

    html: str
    sizes: dict[str, int]

    @cached_property
    def size(self) -> int:
        """The number of bytes of the page."""
        return len(self.html.encode())

    def __str__(self) -> str:
        return f"{self.size / 1e6:.2f} MB: " + ", ".join(f"{part} {n / 1e6:.2f}" for part, n in self.sizes.items())


def explore(
    runs: Sequence[RunFolder], out: Path | None = None, *, model: int | None = None, large: bool = False
) -> tuple[Path, Page]:
    """Write the explorer of some runs; return the path of the page, and the page.

    The page is `out`, by default `explorer.html` in the first run's folder; `large` allows more than `LARGEST` bytes.
    The model with number `model` of each run is shown, by default all models with a record of a circuit.

    Raises:
        InputError: there is no run or no such model, there is nothing to show of a run, the page is too large, or `out`
            is not the path of a page.
    """
    shown = exhibits(runs, model)
    path = out or runs[0].path / PAGE
    check_page(path, runs[0].path / PAGE)
    page = build(shown)
    if page.size > LARGEST and not large:
        raise InputError(
            f"the page would be {page}; above {LARGEST / 1e6:.0f} MB it opens slowly: show fewer models or use --large"
        )
    write_text(path, page.html)
    return path, page


def check_page(path: Path, own: Path) -> None:
    """Check that a page can be written to a path: a new .html file, or a page that hopscope wrote.

    Within a run folder only `own`, the page of that run, may be written.

    Raises:
        InputError: the path is a folder, does not end in .html, is in a run, or is a file that hopscope did not write.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, as in {path / 'explorer.html'}")
    check_folder(path.parent)
    if path.suffix.lower() != ".html":
        raise InputError(f"a page's name must end in .html, got {path.name!r}")
    if path.resolve() != own.resolve():
        check_outside_runs(path)
    head = read_bytes(path, "a page")[:_HEAD] if path.exists() else None
    if head is not None and not all(mark in head for mark in _MADE_HERE):
        raise InputError(f"{path} is not an explorer of hopscope, so it is not replaced; choose another place")


def build(shown: Sequence[Exhibit]) -> Page:
    """Return the page of some models."""
    arrays: Arrays = {}
    page = laid_out(
        "page.html", SCRIPTS, STYLES, manifest(shown, arrays), arrays,
        title=shown[0].name if len({exhibit.run.path for exhibit in shown}) == 1 else "Trained transformers",
        facts=shown[0].facts,
        shown=[(exhibit, tables(exhibit)) for exhibit in shown],
    )  # fmt: skip
    sizes = Counter(page.sizes)
    for name, chunk in arrays.items():
        sizes[name.split("-", 1)[1]] += len(chunk.text)
    return Page(page.html, sizes)


def laid_out(
    template: str, scripts: tuple[str, ...], styles: tuple[str, ...], data: Any, arrays: Arrays, **shown: Any
) -> Page:
    """Return a template of `web/` filled with program, styles, data and arrays; its policy blocks other scripts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    numbers, script, css = _json(data), source(scripts, "js"), source(styles, "css")
    digest = base64.b64encode(hashlib.sha256(f"{script}".encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' blob:; worker-src blob:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    web = PackageLoader("hopscope.explorer", "web")
    environment = Environment(
        loader=web, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html = environment.get_template(template).render(
        **shown,
        policy=Markup(policy),
        version=VERSION,
        css=Markup(css),
        script=Markup(script),
        manifest=numbers,
        chunks=arrays.items(),
    )
    return Page(html, {"program and styles": len(script) + len(css), "numbers": len(numbers)})


def in_notebook(run: RunFolder) -> str:
    """Return the page of a run for a notebook, isolated in a frame, or a sentence that says why it cannot be shown."""
    try:
        page = build(exhibits([run]))
        if page.size > LARGEST:
            raise InputError(f"the page would be {page}; write it to a file with run.explore(large=True)")
    except InputError as error:
        return f"<p>{escape(str(run.path))}: {escape(str(error))}</p>"
    return (
        f'<iframe srcdoc="{escape(page.html)}" style="width:100%;height:900px;border:1px solid #ccc" '
        'sandbox="allow-scripts allow-downloads allow-modals" title="hopscope explorer"></iframe>'
    )


@cache
def source(names: tuple[str, ...], ending: str) -> str:
    """Return files of `web/` as one text; scripts are wrapped in a function, so that they define no global names."""
    web = files("hopscope.explorer") / "web"
    text = "\n".join((web / f"{name}.{ending}").read_text(encoding="utf-8") for name in names)
    return f'\n(() => {{\n"use strict";\n{text}\n}})();\n' if ending == "js" else text


def _json(value: Any) -> Markup:
    """Return JSON with the characters escaped that could be read as HTML or JavaScript."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
