"""Where the weights of one head stand in the attention of a language model's family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture


class _Blocks(NamedTuple):
    """Where in a projection the heads stand, one after the other.

    Attributes:
        axis: along which.
        size: of the projection along it.
        starts: where each block with all heads begins: queries, keys, values.
        wide: how many times its width a head has there: 3 where its queries, keys and values stand together.
    """

    axis: int
    size: int
    starts: Sequence[int]
    wide: int = 1


def copy_head(mine: Any, theirs: Any, head: int, shape: Architecture) -> None:
    """Give a head of the attention `mine` the weights it has in `theirs`.

    Queries and output; keys and values too where no other head shares them.

    Raises:
        InputError: a family whose projections are not known, or of another size than known ones have.
    """
    groups, parts, known = getattr(mine, "num_key_value_groups", 1), dict(theirs.named_parameters()), 0
    for name, weight in mine.named_parameters():
        outputs_first = isinstance(theirs.get_submodule(name.rpartition(".")[0]), nn.Linear)
        blocks = _blocks(name.split(".")[0], weight, outputs_first, shape, groups)
        if blocks is None:
            continue
        if weight.shape[blocks.axis] != blocks.size:
            raise InputError(
                f"no head can be untrained: {name} of {type(mine).__name__} has size {weight.shape[blocks.axis]} along "
                f"its heads, where {shape.heads} of width {shape.d_head}, as known ones stand, would have {blocks.size}"
            )
        for start in blocks.starts:
            width = blocks.wide * shape.d_head
            here = blocks.axis, start + head * width, width
            weight.narrow(*here).copy_(parts[name].narrow(*here))
        known += 1
    if known < 2:
        raise InputError(f"no head can be untrained: the projections of {type(mine).__name__} are not known")


def _blocks(kind: str, weight: Tensor, outputs_first: bool, shape: Architecture, groups: int) -> _Blocks | None:
    """Where the heads stand in a projection of a name, if it is known; `groups` heads share their keys and values."""
    inner, whole = shape.heads * shape.d_head, weight.dim() == 2  # or a bias
    if kind == "c_attn" and not outputs_first:  # GPT-2: queries, keys and values side by side
        return _Blocks(-1, 3 * inner, (0, inner, 2 * inner))
    if kind == "query_key_value" or (kind == "c_attn" and groups == 1):  # GPT-NeoX, GPT-BigCode: head by head
        return _Blocks(0, 3 * inner, (0,), wide=3)
    if kind in ("qkv_proj", "c_attn"):  # as in GPT-2, outputs first
        return _Blocks(0, inner + 2 * inner // groups, (0, inner, 2 * inner) if groups == 1 else (0,))
    if kind == "q_proj" or (kind in ("k_proj", "v_proj") and groups == 1):
        return _Blocks(0, inner, (0,))
    if kind == "c_proj" and whole and not outputs_first:
        return _Blocks(0, inner, (0,))
    if kind in ("o_proj", "dense", "out_proj", "c_proj") and whole:
        return _Blocks(1, inner, (0,))
    return None
