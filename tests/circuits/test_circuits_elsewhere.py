"""Rows elsewhere: what moves and what does not, in vectors and in text; and how a position-based model shows."""

from __future__ import annotations

import pytest
import torch
from planted_models import by_place, evidence_of, witness
from position_based_model import PositionBased
from small_models import random_model

from hopscope.circuits.evaluate.ablations import KEEP
from hopscope.circuits.evaluate.interchange import highest_rise
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.training.data import held_out


@pytest.mark.parametrize("fact", [1, 3])
@pytest.mark.parametrize("position", ["token", "pair"])
def test_rows_of_one_fact_change_places_and_nothing_else(fact, position) -> None:
    problem = RetrievalProblem(3, 3, position=position)
    here = sample(problem, 16, torch.Generator().manual_seed(0))
    elsewhere = VectorEvaluator(random_model(problem), problem, here).elsewhere(fact)
    there = elsewhere.evaluator.batch
    assert isinstance(there, Batch)
    assert torch.equal(here.targets, there.targets)
    same = (here.place == there.place).all(dim=1).all(dim=0)
    assert same.tolist() == [role // 2 + 1 != fact for role in range(7)]
    assert torch.equal(there.place[:, :3, ~same], here.place[:, :3, ~same].roll(-1, dims=1))
    symbol, stays = problem.symbol_dim, ~elsewhere.block
    assert torch.equal(there.inputs[..., symbol:], here.inputs[..., symbol:])  # a place keeps its code
    assert torch.equal(there.inputs[stays], here.inputs[stays])
    for number in range(16):
        assert torch.equal(there.inputs[number, elsewhere.at[number], :symbol], here.inputs[number, :, :symbol])
        assert torch.equal(there.role[number, elsewhere.at[number]], here.role[number])
        assert torch.equal(there.chain[number, elsewhere.at[number]], here.chain[number])


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("own", [True, False])
def test_content_is_found_wherever_it_is(hops: int, own: bool) -> None:
    evidence = evidence_of(witness(hops))
    rise = highest_rise(evidence.few, evidence.own if own else {}, None)
    assert rise is not None
    assert rise < 0.001


@pytest.mark.parametrize("chains", [2, 4])
@pytest.mark.parametrize("kept", [True, False])
def test_a_position_based_model_loses_the_answer(chains: int, kept: bool) -> None:
    """Planted: a head for every position, and a query that knows at which position its pair is."""
    problem = RetrievalProblem(hops=1, chains=chains, symbols="unit")
    evaluator = VectorEvaluator(PositionBased(problem), problem, held_out(problem, 32))
    assert float(evaluator.own.mean()) == 0
    rise = highest_rise(evaluator, dict.fromkeys(evaluator.rows, KEEP) if kept else {}, None)
    assert rise is not None
    assert rise > 1


def test_with_one_chain_there_is_no_other_position() -> None:
    evidence = evidence_of(by_place())
    assert highest_rise(evidence.few, {}, None) is None
