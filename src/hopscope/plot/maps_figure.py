"""Attention maps as in Appendix C: every layer and head, by position for one prompt, and by role on average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hopscope.circuits.coordinates import coordinates
from hopscope.circuits.record import Circuit
from hopscope.circuits.role_maps import role_maps
from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.plot.style import INK, VERMILION, house, new_figure
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.training.data import held_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_MAP = "Blues"
_SIDE = 0.95
_ACROSS = 8


@torch.no_grad()
def maps_figure(
    transformer: Transformer, problem: RetrievalProblem, circuit: Circuit | None = None, sequences: int = 128
) -> Figure:
    """Mean attention by role, a panel a head, layers downward; paths of `circuit` are framed.

    Rows are queries and columns keys, in the order of the sequence. What a row lacks to 1 goes to other chains.
    """
    _one(transformer)
    batch = held_out(problem, sequences, 0, "maps")
    patterns = transformer.patterns(batch.inputs[None])
    maps = role_maps(patterns, coordinates(batch, transformer.shape.causal))
    roles = _order(problem)
    names = [problem.roles[role] for role in roles]
    framed = {(p.layer, p.head, p.query, p.key) for p in circuit.paths} if circuit is not None else set()
    with house():
        figure, grid = _grid(transformer, f"Mean attention by role over {sequences} sequences")
        for layer in range(transformer.shape.layers):
            for head in range(transformer.shape.heads):
                axes = grid[layer][head]
                _panel(axes, maps.same[0, layer, head][roles][:, roles].numpy(), layer, head)
                axes.set_xticks(range(len(names)), names, rotation=90, fontsize=4)
                axes.set_yticks(range(len(names)), names, fontsize=4)
                for row, query in enumerate(names):
                    for column, key in enumerate(names):
                        if (layer + 1, head + 1, query, key) in framed:
                            _frame(axes, column, row)
    return figure


@torch.no_grad()
def prompt_figure(transformer: Transformer, problem: RetrievalProblem, seed: int = 0) -> Figure:
    """Attention by position on one prompt, a panel a head, layers downward."""
    _one(transformer)
    batch = held_out(problem, 1, seed, "prompt")
    patterns = transformer.patterns(batch.inputs[None])
    with house():
        figure, grid = _grid(transformer, "Attention by position on one prompt")
        for layer, pattern in enumerate(patterns):
            for head in range(transformer.shape.heads):
                axes = grid[layer][head]
                _panel(axes, pattern[0, 0, head].numpy(), layer, head)
                axes.set_xticks([])
                axes.set_yticks([])
    return figure


def _grid(transformer: Transformer, title: str) -> tuple[Figure, list[list[Axes]]]:
    """A panel for every head; models of one head a layer wrap their layers, so that the figure is not a ribbon."""
    layers, heads = transformer.shape.layers, transformer.shape.heads
    columns = heads if heads > 1 else min(layers, _ACROSS)
    rows = layers if heads > 1 else -(-layers // columns)
    figure = new_figure(max(3.4, _SIDE * columns + 0.3), _SIDE * rows * 1.12 + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False)
    figure.suptitle(title, fontsize=8)
    if heads > 1:
        return figure, panels.tolist()
    flat = panels.ravel().tolist()
    for axes in flat[layers:]:
        axes.set_axis_off()
    return figure, [[axes] for axes in flat[:layers]]


def _panel(axes: Axes, values: NDArray[Any], layer: int, head: int) -> None:
    axes.imshow(values, cmap=_MAP, vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    axes.set_title(f"{layer + 1}.{head + 1}", fontsize=6, pad=2)
    axes.grid(False)
    axes.tick_params(length=0, pad=1)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.4)
        spine.set_color(INK)


def _frame(axes: Axes, column: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=VERMILION, linewidth=1.0))


def _order(problem: RetrievalProblem) -> list[int]:
    """Roles in the order in which they stand in the sequence."""
    return [role for k in problem.blocks for role in (first_member(k), second_member(k))] + [query_role(problem.hops)]


def _one(transformer: Transformer) -> None:
    if transformer.models != 1:
        raise InputError(f"maps are drawn of one model, got {transformer.models}; take one with `single`")
