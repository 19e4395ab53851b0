"""The style of every figure: sizes, colours, markers, and files that have the same bytes each time.

The colours are those of Okabe and Ito, which differ under every common colour blindness; markers and dashes repeat the
information. Matplotlib's global state is not changed: draw within `with house():`, on your own `Figure`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from hopscope.records import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
INK, FAINT = "#333333", "#D9D9D9"
"""The colour of text and axes, and the colour of grids. The report page inverts both (and white) on a dark screen."""

COLUMN, PAGE = 3.4, 6.8
"""The widths of one and of two columns of a paper, in inches."""

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
    """The colour, marker and dashes of a series, each of which tells the series from its neighbours."""

    color: str
    marker: str
    dash: Dash


_HOP_COLORS = (BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE)
_HOP_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES: tuple[Dash, ...] = get_args(Dash)


def hop_look(hop: int) -> Look:
    """Return the look of a hop, the same in every figure: cold to warm colours, repeated with dashes from hop 7 on."""
    again, place = divmod(hop - 1, len(_HOP_COLORS))
    return Look(_HOP_COLORS[place], _HOP_MARKERS[place], _DASHES[again % len(_DASHES)])


def hop_label(hop: int) -> str:
    """Return the symbol that a hop reaches: x with the number of the hop as a subscript."""
    return f"$x_{{{hop}}}$"


@contextmanager
def house() -> Iterator[None]:
    """A context in which hopscope's style replaces the user's matplotlib settings, which are restored afterwards."""
    import matplotlib.style

    with matplotlib.style.context(_HOUSE, after_reset=True):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, with automatic layout."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def thousands(axes: Axes) -> None:
    """Label steps as 0, 500, 1k, 1.5k, with few enough labels for a small panel."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"))


def save(figure: Figure, stem: Path | str) -> list[Path]:
    """Write a figure as `stem`.png (200 dots per inch), .svg and .pdf, atomically, without dates or host names.

    Returns:
        The paths of the three files. The same figure drawn by the same matplotlib gives the same bytes.
    """
    stem = Path(stem)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in FORMATS]
    for path, suffix in zip(paths, FORMATS, strict=True):
        with house(), replacing(path) as temporary:
            figure.savefig(temporary, format=suffix, metadata=_METADATA[suffix])
            if suffix == "svg":
                temporary.write_bytes(_numbered(temporary.read_text(encoding="utf-8")).encode())
        # A second layout would widen the margins again. With any engine, even "none", the figure is drawn twice.
        figure.set_layout_engine(None)
    return paths


def _numbered(svg: str) -> str:
    """Return an SVG with its parts named by their order; matplotlib's names depend on the last bits of the layout."""
    names: dict[str, str] = {}
    for name in re.findall(r' id="([a-z][0-9a-f]{10})"', svg):
        names.setdefault(name, f"{name[0]}-{len(names)}")
    return re.sub(r'(?<=["#])[a-z][0-9a-f]{10}(?=[")])', lambda found: names.get(found[0], found[0]), svg)
