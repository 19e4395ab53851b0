"""The exchange of `two_keys`, where a second head does a part of the last step with hardly any weight, but loudly."""

from __future__ import annotations

import math

import torch
from two_keys import CIRCUIT, PROBLEM, SCORE, no_query, program

from hopscope.problem.paths import HeadRow
from hopscope.theory.witness import Witness
from hopscope.theory.witness.matching import same_symbol
from hopscope.theory.witness.program import Head, assemble

LOUD, FLAT = HeadRow(1, 1, 2), HeadRow(1, 2, 2)
"""The loud head's row, and that of a head that takes away what the loud one brings of every row alike."""


@torch.no_grad()
def loud_background(share: float, score: float) -> Witness:
    """One hop; one head brings x1 by a clear look at `x0>`, the other a share of it by a look one can hardly see.

    Args:
        share: of x1, that the loud head brings.
        score: of its own `x0>`, above that of any other row; below 0 it looks everywhere else.

    Returns:
        The model, and its circuit without the loud head.
    """
    look, loud, flat = (
        Head(
            (*(same_symbol(PROBLEM, "symbol", "symbol", score) for score in scores), no_query()),
            (("partner", into),),
            {},
        )
        for scores, into in (((SCORE,), "clear"), ((score,), "loud"), ((), "flat"))
    )
    model = assemble(program((look, loud, flat), ("clear", "loud", "flat")))
    rows, width = 2 * PROBLEM.chains, PROBLEM.symbol_dim
    own = math.exp(score) / (math.exp(score) + rows - 1)
    gain = share / (own - 1 / rows)
    clear = PROBLEM.code_dim + 2 * width
    for number, weight in enumerate((1 - share, gain, -gain)):
        model.read.weight[0, clear + number * width :][:width] = weight * torch.eye(width)
    return Witness(PROBLEM, model.requires_grad_(False), CIRCUIT)
