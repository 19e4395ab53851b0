"""One hop without a mask, in which the query looks at both members of the pair: either alone would do."""

from __future__ import annotations

import math

import torch

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.theory.witness import Witness
from hopscope.theory.witness.matching import same_code, same_symbol
from hopscope.theory.witness.program import Head, LayerProgram, Term, assemble

PROBLEM = RetrievalProblem(
    hops=1, symbol_dim=64, position="pair", base=2.0, causal=False, position_dim=32, symbols="unit"
)
CIRCUIT = (AttentionPath(0, 0, 0, 1), AttentionPath(1, 0, 2, 0))
"""The first member of a pair looks at the second; the query looks at the first, which holds both symbols then."""

SCORE = 3000.0
"""Of a match: all weight lies on what matches."""


@torch.no_grad()
def two_keys(share: float, turns: float = 0.0) -> Witness:
    """The members of a pair exchange their symbols; then the query reads x0 and x1, which both of them hold.

    Args:
        share: of the query's attention, on `x0>`; the rest lies on `>x1`.
        turns: how much it depends on the symbols' first component which of the two is looked at; from 100 on nearly
            every query looks at one of them alone.

    Returns:
        The model, and of its circuit the half with `x0>` alone.
    """
    first = torch.eye(PROBLEM.symbol_dim)[:, :1]
    look = Head(
        (
            same_symbol(PROBLEM, "symbol", "symbol", SCORE + math.log(share / (1 - share))),
            same_symbol(PROBLEM, "symbol", "partner", SCORE),
            Term("symbol", "symbol", turns * first, first),
            no_query(),
        ),
        (("symbol", "sum"), ("partner", "sum")),
        {},
    )
    model = assemble(program((look,), ("sum",)))
    start, width = PROBLEM.code_dim, PROBLEM.symbol_dim
    model.read.weight[0, start : start + width] -= torch.eye(width)  # what is read is x0 + x1, and x0 is known
    return Witness(PROBLEM, model.requires_grad_(False), CIRCUIT)


def program(looks: tuple[Head, ...], brought: tuple[str, ...]) -> LayerProgram:
    """The members of a pair exchange their symbols, then these heads look; the first slot they bring to is read."""
    exchange = Head(
        (same_code(PROBLEM, "code", "code", 800.0), same_symbol(PROBLEM, "symbol", "symbol", -60.0)),
        (("symbol", "partner"),),
        {},
    )
    slots = {"code": PROBLEM.code_dim} | dict.fromkeys(("symbol", "partner", *brought), PROBLEM.symbol_dim)
    return LayerProgram(PROBLEM, slots, "symbol", "code", ((exchange,), looks), brought[:1])


def no_query() -> Term:
    """A term that keeps a head from looking at queries."""
    codes = position_codes(PROBLEM).double()
    is_query = torch.zeros(len(codes), 1, dtype=torch.float64)
    is_query[-PROBLEM.chains :] = -1
    found = torch.linalg.lstsq(codes, is_query, driver="gelsd").solution.float()
    return Term(None, "code", torch.ones(1, 1), 4000.0 * found)
