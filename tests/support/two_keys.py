"""One hop without a mask, in which the query looks at both members of the pair: either alone would do."""

from __future__ import annotations

import math

import torch

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.theory.path import AttentionPath
from hopscope.theory.witness import Witness
from hopscope.theory.witness.assembler import assemble
from hopscope.theory.witness.matching import same_code, same_symbol
from hopscope.theory.witness.program import Head, LayerProgram, Term

_SCORE = 800.0
"""Of a match: all weight lies on what matches."""


@torch.no_grad()
def two_keys(share: float) -> Witness:
    """The members of a pair exchange their symbols; then the query reads x0 and x1, which both of them hold.

    Args:
        share: of the query's attention, on `x0>`; the rest lies on `>x1`.

    Returns:
        The model, and of its circuit the half with `x0>` alone.
    """
    problem = RetrievalProblem(
        hops=1, symbol_dim=64, position="pair", base=2.0, causal=False, position_dim=32, symbols="unit"
    )
    codes = position_codes(problem).double()
    is_query = torch.zeros(len(codes), 1, dtype=torch.float64)
    is_query[-problem.chains :] = -1
    no_query = torch.linalg.lstsq(codes, is_query, driver="gelsd").solution.float()
    exchange = Head(
        (same_code(problem, "code", "code", _SCORE), same_symbol(problem, "symbol", "symbol", -60.0)),
        (("symbol", "partner"),),
        {},
    )
    look = Head(
        (
            same_symbol(problem, "symbol", "symbol", _SCORE + math.log(share / (1 - share))),
            same_symbol(problem, "symbol", "partner", _SCORE),
            Term(None, "code", torch.ones(1, 1), 4000.0 * no_query),
        ),
        (("symbol", "sum"), ("partner", "sum")),
        {},
    )
    width = problem.symbol_dim
    slots = {"code": problem.code_dim, "symbol": width, "partner": width, "sum": width}
    program = LayerProgram(
        problem=problem,
        slots=slots,
        symbol="symbol",
        code="code",
        layers=((exchange,), (look,)),
        answers=("sum",),
    )
    model = assemble(program)
    start = problem.code_dim
    model.read.weight[0, start : start + width] -= torch.eye(width)  # what is read is x0 + x1, and x0 is known
    return Witness(problem, model.requires_grad_(False), (AttentionPath(0, 0, 0, 1), AttentionPath(1, 0, 2, 0)))
