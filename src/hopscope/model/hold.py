"""The fixed patterns of held heads, put in place of those that would be computed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.held import HeldHead, HeldPattern


def hold(
    pattern: Float[Tensor, "model batch head query key"], held: Sequence[HeldHead], causal: bool
) -> Float[Tensor, "model batch head query key"]:
    """The pattern of one layer with its held heads replaced. Queries are the last positions of the sequence."""
    queries, keys = pattern.shape[-2:]
    heads = list(pattern.unbind(dim=2))
    for one in held:
        fixed = held_pattern(one.pattern, keys, causal)[-queries:].to(pattern)
        heads[one.head - 1] = fixed.expand_as(heads[one.head - 1])
    return torch.stack(heads, dim=2)


def held_pattern(kind: HeldPattern, length: int, causal: bool) -> Float[Tensor, "query key"]:
    """The pattern of one held head over `length` positions."""
    if kind == "nothing":
        return torch.zeros(length, length)
    if kind == "itself":
        return torch.eye(length)
    if kind == "previous":
        return torch.eye(length)[[0, *range(length - 1)]]
    allowed = torch.ones(length, length)
    allowed = allowed.tril() if causal else allowed
    return allowed / allowed.sum(dim=-1, keepdim=True)
