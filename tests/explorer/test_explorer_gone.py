"""Heads that training took away are told apart from those that are there."""

from __future__ import annotations

import torch

from hopscope.explorer.manifest import _gone
from hopscope.theory.witness import build_witness


def test_heads_that_write_nothing_are_gone() -> None:
    """Numbered layer after layer: the spare heads of a witness are empty."""
    made = build_witness(hops=2, spare_heads=2)
    assert made.transformer.shape.heads == 3
    assert _gone(made.transformer) == [1, 2, 4, 5, 7, 8]
    assert _gone(build_witness(hops=2).transformer) == []
    assert _gone(None) == []


def test_a_head_with_one_number_left_is_there() -> None:
    made = build_witness(hops=1, spare_heads=1)
    out = made.transformer.blocks[1].attention.out.weight
    with torch.no_grad():
        out[0, out.shape[1] // 2, 0] = 1e-6
    assert _gone(made.transformer) == [1]
