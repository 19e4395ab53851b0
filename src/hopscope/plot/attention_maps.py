"""Appendix C: attention maps of every layer and head, by role on average, and by position for one prompt."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.plot.style import INK, VERMILION, house, new_figure
from hopscope.problem.retrieval import RetrievalProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_MAP = "Blues"
_SIDE = 0.95
_ACROSS = 8
_PALE = 0.25

SilentHeads = Collection[tuple[int, int]]
"""Layer and head, from 0."""


def appendix_c(
    maps: Float[Tensor, "layer head role role"],
    problem: RetrievalProblem,
    circuit: Circuit | None = None,
    *,
    silent: SilentHeads = frozenset(),
) -> Figure:
    """Mean attention by role, a panel for each head, layers downward.

    Rows are queries and columns keys, in the order of the sequence; those on the left and at the bottom are named. What
    a row lacks to 1 goes to other chains.

    Args:
        maps: mean attention, with roles by number, as from `hs.Model.attention()`.
        problem: the problem whose roles there are.
        circuit: the circuit whose paths are framed; None for no frames.
        silent: layer and head, from 0, of heads that write nothing, such as those that training removed; drawn pale.
            `hopscope.circuits.checks.claimed.silent_heads(model.evaluator)` tells them.
    """
    roles = _order(problem)
    names = [problem.roles[role] for role in roles]
    framed = {path.path.names(circuit.roles) for path in circuit.paths} if circuit is not None else set()
    layers, heads = maps.shape[:2]
    with house():
        figure, grid = _grid(layers, heads, "Mean attention by role", silent)
        lowest = _lowest(grid)
        for layer in range(layers):
            for head in range(heads):
                axes = grid[layer][head]
                _panel(axes, maps[layer, head][roles][:, roles].detach().numpy(), layer, head, silent)
                if axes.get_subplotspec().is_first_col():  # type: ignore[union-attr]
                    axes.set_yticks(range(len(names)), names, fontsize=4)
                if axes in lowest:
                    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=4)
                for row, query in enumerate(names):
                    for column, key in enumerate(names):
                        if (layer + 1, head + 1, query, key) in framed:
                            _frame(axes, column, row)
    return figure


def one_prompt(patterns: Float[Tensor, "layer head query key"], *, silent: SilentHeads = frozenset()) -> Figure:
    """Attention by position on one prompt, a panel for each head, layers downward; `silent` heads are drawn pale."""
    layers, heads = patterns.shape[:2]
    with house():
        figure, grid = _grid(layers, heads, "Attention by position on one prompt", silent)
        for layer in range(layers):
            for head in range(heads):
                axes = grid[layer][head]
                _panel(axes, patterns[layer, head].detach().numpy(), layer, head, silent)
    return figure


def _grid(layers: int, heads: int, title: str, silent: SilentHeads) -> tuple[Figure, list[list[Axes]]]:
    """A panel for every head; layers of one head each are wrapped into rows, so that the figure is not a ribbon."""
    columns = heads if heads > 1 else min(layers, _ACROSS)
    rows = layers if heads > 1 else -(-layers // columns)
    figure = new_figure(max(3.4, _SIDE * columns + 0.3), _SIDE * rows * 1.12 + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False)
    figure.suptitle(title + ("\npale: heads that write nothing, such as pruned ones" if silent else ""), fontsize=8)
    if heads > 1:
        return figure, panels.tolist()
    flat = panels.ravel().tolist()
    for axes in flat[layers:]:
        axes.set_axis_off()
    return figure, [[axes] for axes in flat[:layers]]


def _lowest(grid: list[list[Axes]]) -> list[Axes]:
    """The panels below which there is none."""
    flat = [axes for row in grid for axes in row]
    columns = flat[0].get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    return flat[-columns:]


def _panel(axes: Axes, values: NDArray[Any], layer: int, head: int, silent: SilentHeads) -> None:
    share = _PALE if (layer, head) in silent else 1.0
    axes.imshow(values, cmap=_MAP, vmin=0, vmax=1, interpolation="nearest", aspect="equal", alpha=share)
    axes.set_title(f"{layer + 1}.{head + 1}", fontsize=6, pad=2, alpha=max(share, 0.4))
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.tick_params(length=0, pad=1)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.4)
        spine.set_color(INK)


def _frame(axes: Axes, column: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=VERMILION, linewidth=1.0))


def _order(problem: RetrievalProblem) -> list[int]:
    """The roles in the order in which they stand in the sequence."""
    places = list(enumerate(problem.facts.places))
    return [role for step in (*problem.blocks, 0) for role, place in places if place.step == step]
