"""By what models tell rows apart: one that goes by what rows hold, one that goes by places, and what is made of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hopscope.model.architecture import Architecture
from hopscope.model.edit import Edit
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.studies.by_place import ByPlace, RowsMoved
from hopscope.studies.conditional import facts_that_meet, needs_what_meets
from hopscope.studies.moving_rows import ask_by_place, by_role, pairs
from hopscope.theory.witness import build_witness


class GoesByPlace(Transformer):
    """One hop: the query has a head for each place of the pairs, which looks at the query itself if its own pair stands
    there and so brings what stands there, and else at the first token, for nothing."""

    def __init__(self, problem: RetrievalProblem) -> None:
        n = problem.chains
        super().__init__(Architecture(problem.input_dim, problem.target_dim, reads=n, layers=1, heads=n, d_model=8 * n))
        self.width, self.asked = problem.symbol_dim, range(2 * n, 3 * n)

    def patterns(self, inputs: Tensor, edit: Edit | None = None) -> list[Tensor]:
        symbols = inputs[..., : self.width]
        pattern = torch.zeros(*inputs.shape[:2], len(self.asked), inputs.shape[2], inputs.shape[2])
        for place in range(len(self.asked)):
            for query in self.asked:
                here = (symbols[..., query, :] == symbols[..., 2 * place, :]).all(dim=-1).float()
                pattern[..., place, query, query], pattern[..., place, query, 0] = here, 1 - here
        return [(edit or Edit()).pattern(0, pattern)]

    def forward(self, inputs: Tensor, edit: Edit | None = None) -> Tensor:
        (pattern,) = self.patterns(inputs, edit)
        gates = torch.stack([pattern[..., query, query] for query in self.asked], dim=-2)
        return gates @ inputs[..., 1 : 2 * len(self.asked) : 2, : self.width]


@pytest.mark.parametrize("chains", [2, 3, 4])
def test_who_goes_by_places_brings_the_next_chains(chains: int) -> None:
    problem = RetrievalProblem(hops=1, chains=chains, symbols="unit")
    found = ask_by_place("m", GoesByPlace(problem), problem, (1,), sequences=64)
    assert found.losses == (0.0,)
    (moved,) = found.moved
    assert (moved.fact, moved.layer, moved.next) == (1, 1, 0.0)
    assert moved.losses[0] > 1
    assert found.makes(1)
    assert found.goes_by_place(1)


@pytest.mark.parametrize("hops", [1, 3])
def test_who_goes_by_what_rows_hold_does_not_notice(hops: int) -> None:
    witness = build_witness(hops, chains=3)
    facts = tuple(range(1, hops + 1))
    found = ask_by_place("m", witness.transformer, witness.problem, facts, sequences=64)
    assert len(found.moved) == hops * witness.transformer.shape.layers
    for moved in found.moved:
        assert moved.losses == pytest.approx(found.losses, abs=1e-3)
        assert moved.next > 1
    assert not any(found.goes_by_place(look_up) for look_up in facts)


@pytest.mark.parametrize(("graph", "fact"), [("relatives", 2), ("functions", 1), ("functions", 2)])
def test_the_two_sequences_differ_in_where_rows_of_one_fact_stand(graph: str, fact: int) -> None:
    problem = RetrievalProblem({"relatives": 4, "functions": 3}[graph], 3, graph=graph)  # type: ignore[arg-type]
    here, there = pairs(problem, fact, 16, 0)
    assert torch.equal(here.targets, there.targets)
    same = (here.place == there.place).all(dim=1).all(dim=0)
    assert same.tolist() == [role.step != fact for role in problem.facts.places]
    roles = [number for number, role in enumerate(problem.facts.places) if role.step == fact]
    for role in roles:
        assert torch.equal(there.place[:, :3, role], here.place[:, :3, role].roll(-1, dims=1))
    # A weight on a role is on that role afterwards, wherever it stands.
    length = problem.sequence_length
    spread = torch.eye(length).expand(1, 16, 1, length, length)
    put = by_role(spread, here, there)
    for number in range(16):
        for chain, role in ((0, roles[0]), (2, roles[-1]), (1, 0)):
            at, stood = int(here.place[number, chain, role]), int(there.place[number, chain, role])
            assert put[0, number, 0, stood, at] == 1


def test_which_facts_meet() -> None:
    assert facts_that_meet("relatives") == (2,)
    assert facts_that_meet("functions") == (1, 2)
    assert needs_what_meets("relatives") == needs_what_meets("functions") == 3


def test_a_look_up_is_lost_in_any_layer() -> None:
    moved = (RowsMoved(2, 1, (0.0, 0.1, 0.2), 2.0), RowsMoved(2, 2, (0.0, 1.9, 0.51), 0.1))
    found = ByPlace("m", (0.0, 0.1, 0.1), moved)
    assert [found.goes_by_place(look_up) for look_up in (1, 2, 3)] == [False, True, True]
    unmade = ByPlace("m", (0.0, 0.1, 0.31), moved)
    assert not unmade.makes(3)
    assert not unmade.goes_by_place(3)
