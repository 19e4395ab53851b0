"""The page as one file, put together from sources, data and tables; the same inputs give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from hopscope.checks import check_outside_runs
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
"""The sources of the page's program, in their order; all but `boot` only define things."""

STYLES = ("base", "layout", "views", "print")

PAGE = "explorer.html"
"""The name of a run's own page, in its folder."""

_MADE_HERE, _HEAD = (b'<meta name="generator" content="hopscope ', b"worker-src blob:"), 4096
"""What these pages, and no others of ours, say of themselves within so many bytes."""

LARGEST = 25_000_000
"""Bytes beyond which a page is only written on request: browsers open it slowly, and mail does not take it."""


@dataclass(frozen=True)
class Page:
    """A page and its bytes by part."""

    html: str
    sizes: dict[str, int]

    def __str__(self) -> str:
        total = len(self.html.encode())
        return f"{total / 1e6:.2f} MB: " + ", ".join(f"{name} {size / 1e6:.2f}" for name, size in self.sizes.items())


def explore(
    runs: Sequence[RunFolder], out: Path | None = None, *, model: int | None = None, large: bool = False
) -> tuple[Path, Page]:
    """Write the explorer of some runs; return its path and what it is made of.

    Args:
        runs: the runs whose models are shown.
        out: the file to write, whose name ends in .html; `explorer.html` in the first run by default.
        model: the number of the one model to show of each run; None for all with a record of a circuit.
        large: whether to write it even beyond `LARGEST`.

    Raises:
        InputError: there is no run or no such model, there is nothing to show of a run, the page is too large, or the
            file cannot be a page.
    """
    shown = exhibits(runs, model)
    path = out or runs[0].path / PAGE
    check_page(path, runs[0].path / PAGE)
    page = build(shown)
    if len(page.html) > LARGEST and not large:
        raise InputError(
            f"the page would be {page}; beyond {LARGEST / 1e6:.0f} MB it opens badly: show fewer models or say --large"
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
    if path.suffix.lower() != ".html":
        raise InputError(f"a page's name must end in .html, got {path.name!r}")
    if path.resolve() != own.resolve():
        check_outside_runs(path)
    head = read_bytes(path, "a page")[:_HEAD] if path.exists() else None
    if head is not None and not all(mark in head for mark in _MADE_HERE):
        raise InputError(f"{path} is not an explorer of hopscope, which would replace it; choose another place")


def build(shown: Sequence[Exhibit]) -> Page:
    """The page of some models."""
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
    """A template of `web/` with its program, styles, data and arrays; the page's policy lets no other script run."""
    from jinja2 import Environment, StrictUndefined

    numbers, script, css = _json(data), source(scripts, "js"), source(styles, "css")
    digest = base64.b64encode(hashlib.sha256(f"{script}".encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' blob:; worker-src blob:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    html = environment.from_string(_web(template)).render(
        **shown,
        policy=Markup(policy),
        version=VERSION,
        css=Markup(css),
        script=Markup(script),
        manifest=numbers,
        view=Markup('{"hash": ""}'),
        chunks=arrays.items(),
    )
    return Page(html, {"program and styles": len(script) + len(css), "numbers": len(numbers)})


def in_notebook(run: RunFolder) -> str:
    """The page of a run for a notebook, isolated in a frame; or a sentence that says why there is none."""
    try:
        page = build(exhibits([run]))
        if len(page.html) > LARGEST:
            raise InputError(f"the page would be {page}; write it to a file with run.explore(large=True)")
    except InputError as error:
        return f"<p>{escape(str(run.path))}: {escape(str(error))}</p>"
    return (
        f'<iframe srcdoc="{escape(page.html)}" style="width:100%;height:900px;border:1px solid #ccc" '
        'sandbox="allow-scripts allow-downloads allow-modals" title="hopscope explorer"></iframe>'
    )


@cache
def source(names: tuple[str, ...], ending: str) -> str:
    """Files of `web/` one after the other; scripts are wrapped in one function, so that no name leaves it."""
    text = "\n".join(_web(f"{name}.{ending}") for name in names)
    return f'\n(() => {{\n"use strict";\n{text}\n}})();\n' if ending == "js" else text


def _web(name: str) -> str:
    return (files("hopscope.explorer") / "web" / name).read_text(encoding="utf-8")


def _json(value: Any) -> Markup:
    """JSON in which nothing can be mistaken for HTML or JavaScript."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
