"""Role maps: the shuffle is undone before anything is averaged."""

from __future__ import annotations

import pytest
import torch
from small_models import random_model, some_batch

from hopscope.model.role_maps import coordinates, role_maps, visible_roles
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.scene import place_in_sequence

PROBLEM = RetrievalProblem(hops=3, chains=4)
BATCH = some_batch(PROBLEM, 16)
WHERE = coordinates(BATCH, causal=True)
LENGTH = PROBLEM.sequence_length


def test_rows_sum_to_one_and_uniform_is_uniform() -> None:
    uniform = WHERE.allowed.float() / WHERE.allowed.sum(dim=-1, keepdim=True)
    maps = role_maps([uniform.expand(1, 16, 2, -1, -1)], WHERE)
    torch.testing.assert_close((maps.same + maps.other).sum(dim=-1), torch.ones(1, 1, 2, 7))
    # The last query sees all 28, the first 25: 1/28 to 1/25 on its own x0, three times that on the others'.
    assert 1 / 28 <= float(maps.same[0, 0, 0, 6, 0]) <= 1 / 25
    torch.testing.assert_close(maps.other[0, 0, 0, 6, 0], 3 * maps.same[0, 0, 0, 6, 0])
    torch.testing.assert_close(maps.expected[0, 0, 0, 6, 0], maps.same[0, 0, 0, 6, 0])
    torch.testing.assert_close(maps.expected[0, 0, 0, 6, 7], maps.same[0, 0, 0, 6, 0])


def test_by_hand() -> None:
    """Against loops over chains and roles, on a random pattern."""
    model = random_model(PROBLEM)
    patterns = model.patterns(BATCH.inputs[None])
    maps = role_maps(patterns, WHERE)
    for query, key in ((6, 1), (3, 2), (1, 5), (0, 0)):
        same = torch.tensor(0.0)
        other = torch.tensor(0.0)
        for b in range(16):
            for c in range(4):
                row = patterns[1][0, b, 2, WHERE.place[b, c, query]]
                same += row[WHERE.place[b, c, key]]
                other += sum(row[WHERE.place[b, d, key]] for d in range(4) if d != c)
        torch.testing.assert_close(maps.same[0, 1, 2, query, key], same / 64)
        torch.testing.assert_close(maps.other[0, 1, 2, query, key], other / 64)


@pytest.mark.parametrize("order", ["deepest-first", "shallowest-first"])
def test_who_sees_whom(order: str) -> None:
    problem = RetrievalProblem(hops=3, chains=4, order=order)  # type: ignore[arg-type]
    place = some_batch(problem, 8).place
    seen = visible_roles(place, causal=True)
    for query in range(7):
        for key in range(7):
            before = place_in_sequence(problem, 0, key) <= place_in_sequence(problem, 0, query)
            assert bool(seen[query, key]) == before
    assert int(seen.sum()) == 28
    assert visible_roles(place, causal=False).all()
