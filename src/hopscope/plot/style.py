"""The look of every figure: sizes, colours, marks, and files that have the same bytes each time.

Colours are Okabe and Ito's, which differ under every common colour blindness; markers and dashes repeat what colour
says. Nothing here touches matplotlib's global state: draw within `with house():`, on a `Figure` of your own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from hopscope.errors import InputError
from hopscope.records import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
INK, FAINT = "#333333", "#D9D9D9"
"""The colour of text and axes, and that of grids. The report's page inverts both (and white) on a dark screen."""

COLUMN, PAGE = 3.4, 6.8
"""Widths in inches: one column of a paper, and two."""

Dash = Literal["-", "--", "-.", ":"]

FORMATS = ("png", "svg", "pdf")

_HOUSE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.labelsize": 8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.handlelength": 2.0,
    "legend.columnspacing": 1.4,
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
    "savefig.dpi": 200,
    # Outlines in place of letters, and a fixed salt in place of a random one: the same picture and bytes everywhere.
    "svg.fonttype": "path",
    "svg.hashsalt": "hopscope",
    "pdf.fonttype": 42,
}

_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True)
class Look:
    """How a series is drawn: three ways to tell it from its neighbours."""

    color: str
    marker: str
    dash: Dash


_HOP_COLORS = (BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE)
_HOP_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES: tuple[Dash, ...] = get_args(Dash)


def hop_look(hop: int) -> Look:
    """The look of hop 1, 2, ...: cold to warm, the same in every figure; dashed from hop 7 on, where colours return."""
    again, place = divmod(hop - 1, len(_HOP_COLORS))
    return Look(_HOP_COLORS[place], _HOP_MARKERS[place], _DASHES[again % len(_DASHES)])


def hop_label(hop: int) -> str:
    """The symbol that the hop reaches: x with its number as a subscript."""
    return f"$x_{{{hop}}}$"


@contextmanager
def house() -> Iterator[None]:
    """Draw in the style of the house, whatever the user's own matplotlib settings, which are restored afterwards."""
    import matplotlib.style

    with matplotlib.style.context(_HOUSE, after_reset=True):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, which lays itself out."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def thousands(axes: Axes) -> None:
    """Write steps as 0, 500, 1k, 1.5k, few enough for a small panel."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"))


def save(figure: Figure, stem: Path | str) -> list[Path]:
    """Write `stem`.png (200 dots per inch), .svg and .pdf, each whole or not at all, without dates or host names.

    Returns:
        The three files. The same figure drawn by the same matplotlib gives the same bytes.
    """
    stem = Path(stem)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in FORMATS]
    for path in paths:
        write(figure, path)
        # Laid out now; a second time would widen the margins again. With any engine, "none" too, all is drawn twice.
        figure.set_layout_engine(None)
    return paths


def write(figure: Figure, path: Path) -> None:
    """Write one file as `save` does, in the format that its name asks for.

    Raises:
        InputError: the name does not end in .png, .svg or .pdf.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError(f"a figure's name must end in .png, .svg or .pdf, got {path.name!r}")
    with house(), replacing(path) as temporary:
        figure.savefig(temporary, format=suffix, metadata=_METADATA[suffix])
        if suffix == "svg":
            temporary.write_bytes(_numbered(temporary.read_text(encoding="utf-8")).encode())


def _numbered(svg: str) -> str:
    """A drawing whose parts are named by their order, not by the last bits of a layout, which differ each time."""
    names: dict[str, str] = {}
    for name in re.findall(r' id="([a-z][0-9a-f]{10})"', svg):
        names.setdefault(name, f"{name[0]}-{len(names)}")
    return re.sub(r'(?<=["#])[a-z][0-9a-f]{10}(?=[")])', lambda found: names.get(found[0], found[0]), svg)
