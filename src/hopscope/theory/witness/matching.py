"""The comparisons of hand-built heads: the same symbol, the same code, the token before, what is earlier.

Strengths are scores: with `strength` 800, comparing a slot with its equal adds 800 to the score, and with anything else
800 times their cosine. Symbols must be of unit length, or an equal one would not always score highest.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.witness.program import Term


def same_symbol(problem: RetrievalProblem, query: str, key: str, strength: float) -> Term:
    """A term for equal symbols in the two slots. A negative strength makes a head avoid equal ones."""
    half, sign = math.sqrt(abs(strength) / problem.symbol_dim), math.copysign(1.0, strength)
    eye = torch.eye(problem.symbol_dim)
    return Term(query, key, sign * half * eye, half * eye)


def same_code(problem: RetrievalProblem, query: str, key: str, strength: float, steps_back: int = 0) -> Term:
    """A term for a code in the key slot that is `steps_back` before the code in the query slot."""
    # Each cosine and sine squared add up to 1, so a code's squared length is half its width.
    half, sign = math.sqrt(2 * abs(strength) / problem.code_dim), math.copysign(1.0, strength)
    return Term(query, key, sign * half * _turn(problem, -steps_back), half * torch.eye(problem.code_dim))


def earlier(problem: RetrievalProblem, key: str, per_token: float) -> Term:
    """A term that prefers earlier keys: close to `per_token` more for each token back.

    The slowest sine is almost a straight line over a sequence no longer than the base of the code.
    """
    slowest = float(_frequencies(problem)[-1])
    middle = slowest * (problem.sequence_length - 1) / 2
    key_map = torch.zeros(problem.code_dim, 1)
    # -sin(angle - middle) / slowest, from the last cosine and sine.
    key_map[-2:, 0] = torch.tensor([math.sin(middle), -math.cos(middle)]) * per_token / slowest
    return Term(None, key, torch.ones(1, 1), key_map)


def not_the_first(problem: RetrievalProblem, code: str, before: str, strength: float) -> tuple[Term, Term]:
    """Terms that avoid the first position of the sequence: exactly -`strength` there and 0 elsewhere.

    Slot `before` holds the code one step back, except at the first position, where it holds the position's own.
    """
    back = _turn(problem, -1)
    at_first = torch.zeros(problem.code_dim)
    at_first[::2] = 1.0
    difference = (at_first @ back - at_first)[:, None]
    scale = -strength / float(difference.square().sum())
    one = torch.ones(1, 1)
    return Term(None, code, one, scale * back @ difference), Term(None, before, one, -scale * difference)


def _frequencies(problem: RetrievalProblem) -> Float[Tensor, " frequency"]:
    """The rotary frequencies of the problem's codes, fastest first."""
    rank = torch.arange(problem.code_dim // 2, dtype=torch.float64)
    return float(problem.base) ** (-2.0 * rank / problem.code_dim)


def _turn(problem: RetrievalProblem, steps: int) -> Float[Tensor, "d_code d_code"]:
    """The matrix that turns a code (a row vector) into the code `steps` later."""
    angles = _frequencies(problem) * steps
    turns = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles.tolist()]
    turned: Tensor = torch.block_diag(*turns)  # type: ignore[no-untyped-call]
    return turned
