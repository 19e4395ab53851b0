"""Where the weights of one head are in the attention of a family of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture


class _Blocks(NamedTuple):
    """Where the heads are in a projection, one after the other.

    Attributes:
        axis: the axis along which they follow one another.
        size: size of the projection along that axis.
        starts: where each block of all heads begins: queries, keys, values.
        wide: how many times its own width a head takes there: 3 where its query, key and value are side by side.
    """

    axis: int
    size: int
    starts: Sequence[int]
    wide: int = 1


def copy_head(mine: Any, theirs: Any, head: int, shape: Architecture) -> None:
    """Give a head of the attention `mine` the weights that it has in `theirs`.

    These are the weights of queries and output, and of keys and values where no other head shares them.

    Raises:
        InputError: the projections of this family are not known, or not of the size that known ones have.
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
    """Where the heads are in the projection of a name, if it is known; `groups` heads share their keys and values."""
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
