"""Heads that write nothing: seen by what they write, and no rivals of a circuit."""

from __future__ import annotations

import torch
from planted_models import attention, copy_head, evidence_of, witness


def test_heads_that_write_nothing_are_no_rivals() -> None:
    """Twins of the pair-tying head look where it looks; those that were taken away would make any circuit look rare."""
    made = witness(2, spare_heads=6, noise=0.0)
    for head in range(1, 7):
        copy_head(made.transformer, 0, 0, head)

    def telling() -> set[tuple[int, int]]:
        return {(row.layer, row.head) for row in evidence_of(made).telling}

    assert telling() == {(0, head) for head in range(7)} | {(1, 0), (2, 0)}
    size = made.transformer.shape.d_head
    with torch.no_grad():
        attention(made.transformer, 0).out.weight[:, size : 4 * size] = 0
    assert telling() == {(0, 0), (0, 4), (0, 5), (0, 6), (1, 0), (2, 0)}
