"""Rows that attend to all chains alike: what is shared among chains, and what stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import disguised_witness

from hopscope.circuits.evaluate.ablations import Ablation, AblationKind
from hopscope.circuits.evaluate.chains import ChainsSeen
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.role_maps import coordinates
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out

QUERY, NAMED = 4, 3


@pytest.fixture(scope="module")
def evaluator() -> VectorEvaluator:
    made = disguised_witness(2)
    return VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 64))


def _pattern(evaluator: VectorEvaluator) -> torch.Tensor:
    allowed, generator = evaluator.where.allowed, torch.Generator().manual_seed(0)
    scores = torch.randn(1, evaluator.sequences, 3, *allowed.shape, generator=generator)
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


def test_every_role_has_as_much_in_the_own_chain_as_in_others_but_for_what_is_named(evaluator: VectorEvaluator) -> None:
    """Head 2 of layer 2; an oracle in plain loops."""
    where = evaluator.where
    before = _pattern(evaluator)
    alike = {HeadRow(1, 1, QUERY): Ablation(AblationKind.ALIKE, (NAMED,))}
    after = evaluator.edit(alike).pattern(1, before)
    assert torch.equal(after[:, :, [0, 2]], before[:, :, [0, 2]])
    is_query = where.role == QUERY
    assert torch.equal(after[0, :, 1][~is_query], before[0, :, 1][~is_query])
    assert torch.allclose(after.sum(dim=-1), torch.ones(()), atol=1e-6)
    for sequence in range(4):
        for query in is_query[sequence].nonzero().flatten().tolist():
            was, now = before[0, sequence, 1, query], after[0, sequence, 1, query]
            wanted = was.clone()
            kept = {query}
            for role in range(where.roles):
                seen = [key for key in range(query + 1) if int(where.role[sequence, key]) == role]
                own = [key for key in seen if int(where.relation[sequence, query, key]) == role and key != query]
                others = [key for key in seen if key not in own and key != query]
                if role == NAMED:
                    kept |= {*own}
                elif own:
                    wanted[own] = was[others].mean() if others else 0.0
            rest = [key for key in range(query + 1) if key not in kept]
            wanted[rest] *= was[rest].sum() / wanted[rest].sum()
            assert torch.allclose(now, wanted, atol=1e-6)


@given(seed=st.integers(0, 99))
def test_nothing_tells_what_a_row_would_see_in_its_own_chain(seed: int) -> None:
    """Whatever scores keys of its own chain have, the pattern is the same: not even its weight on itself tells."""
    where = coordinates(held_out(RetrievalProblem(hops=2), 4), causal=True)
    generator = torch.Generator().manual_seed(seed)
    scores, more = (torch.randn(1, 4, *where.allowed.shape, generator=generator) for _ in range(2))
    itself = torch.eye(where.allowed.shape[-1], dtype=torch.bool)
    own = (where.relation < where.roles) & ~itself
    patterns = [
        logits.masked_fill(~where.allowed, -torch.inf).softmax(dim=-1)
        for logits in (scores, torch.where(own, more, scores))
    ]
    chains = ChainsSeen(where)
    shared = chains.shared(dict.fromkeys(range(where.roles), ()))
    found, same = (chains.alike(pattern, shared) for pattern in patterns)
    torch.testing.assert_close(found, same)
    assert torch.allclose(found.sum(dim=-1), torch.ones(()), atol=1e-5)
    assert (patterns[0] - patterns[1]).abs().max() > 0.01
