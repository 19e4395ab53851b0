"""Where the weights of one head are in the attention of a family of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture


class _Blocks(NamedTuple):
    """Where the heads are in a projection, one after the other.

    Attributes:
        axis: the axis along which they follow one another.
        size: size of the projection along that axis.
        starts: where each block of all heads begins: queries, keys, values.
    """

    axis: int
    size: int
    starts: Sequence[int]


def copy_head(mine: Any, theirs: Any, head: int, shape: Architecture) -> None:
    """Give a head of the attention `mine` the weights that it has in `theirs`.

    These are the weights of queries and output, and of keys and values where no other head shares them.

    Raises:
        InputError: the projections of this family are not known, or not of the size that known ones have.
    """
    groups, parts, known = getattr(mine, "num_key_value_groups", 1), dict(theirs.named_parameters()), 0
    for name, weight in mine.named_parameters():
        blocks = _blocks(name.split(".")[0], weight, shape, groups)
        if blocks is None:
            continue
        if weight.shape[blocks.axis] != blocks.size:
            raise InputError(
                f"no head can be untrained: {name} of {type(mine).__name__} has size {tuple(weight.shape)}, where "
                f"{shape.heads} heads of width {shape.d_head} side by side, as known ones stand, would have "
                f"{blocks.size} along axis {blocks.axis}"
            )
        for start in blocks.starts:
            here = blocks.axis, start + head * shape.d_head, shape.d_head
            weight.narrow(*here).copy_(parts[name].narrow(*here))
        known += 1
    if known < 2:
        raise InputError(f"the projections of {type(mine).__name__} are not known, so no head can be untrained")


def _blocks(kind: str, weight: Tensor, shape: Architecture, groups: int) -> _Blocks | None:
    """Where the heads are in the projection of a name, if it is known; `groups` heads share their keys and values."""
    inner, whole = shape.heads * shape.d_head, weight.dim() == 2  # or a bias
    if kind == "c_attn":  # GPT-2: queries, keys and values side by side, inputs first
        return _Blocks(-1, 3 * inner, (0, inner, 2 * inner))
    if kind == "qkv_proj":  # the same, outputs first
        return _Blocks(0, inner + 2 * inner // groups, (0, inner, 2 * inner) if groups == 1 else (0,))
    if kind == "q_proj" or (kind in ("k_proj", "v_proj") and groups == 1):
        return _Blocks(0, inner, (0,))
    if kind == "c_proj" and whole:
        return _Blocks(0, inner, (0,))
    if kind in ("o_proj", "dense", "out_proj") and whole:
        return _Blocks(1, inner, (0,))
    return None
