"""The formulas for depth, held against searches that know nothing of them."""

from __future__ import annotations

import pytest
from flow_oracle import breadth_first_depth, exhaustive_one_place_depth, relaxed_one_place_depth
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.depth import (
    Depths,
    depths,
    minimum_causal,
    minimum_one_head,
    minimum_without_mask,
    theorem_1_bound,
)
from hopscope.theory.information_flow import minimum_layers

ORDERS = tuple(NAMED_ORDERS)


@pytest.mark.parametrize("hops", range(1, 65))
def test_formulas_simulation_and_search_agree(hops: int) -> None:
    assert minimum_without_mask(hops) == breadth_first_depth(hops, causal=False)
    assert minimum_layers(RetrievalProblem(hops=hops, causal=False)) == minimum_without_mask(hops)
    for order in ORDERS:
        assert minimum_causal(hops) == breadth_first_depth(hops, causal=True, order=order)
        assert minimum_layers(RetrievalProblem(hops=hops, order=order)) == minimum_causal(hops)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize(("causal", "order"), [(False, "deepest-first"), *((True, order) for order in ORDERS)])
def test_one_head_by_trying_every_schedule(hops: int, causal: bool, order: str) -> None:
    assert exhaustive_one_place_depth(hops, causal, order) == minimum_one_head(hops)


@pytest.mark.parametrize("hops", [4, 5, 7, 8, 11])
@pytest.mark.parametrize("causal", [False, True])
def test_one_head_cannot_be_shorter(hops: int, causal: bool) -> None:
    # The other direction is a schedule that delivers: test_theory_schedule.py.
    assert relaxed_one_place_depth(hops, causal) == minimum_one_head(hops)


def test_first_rows_of_the_table() -> None:
    rows = [(row.theorem_1, row.no_mask, row.causal, row.causal_one_head) for row in map(depths, range(1, 9))]
    assert rows == [
        (1, 2, 2, 2),
        (2, 2, 3, 3),
        (2, 3, 3, 3),
        (2, 3, 4, 4),
        (3, 3, 4, 4),
        (3, 3, 4, 4),
        (3, 4, 4, 4),
        (3, 4, 5, 5),
    ]


@given(st.integers(1, 10**60))
def test_formulas_are_exact_far_beyond_floating_point(hops: int) -> None:
    assert 3 ** (theorem_1_bound(hops) - 1) < 2 * hops <= 3 ** theorem_1_bound(hops)
    assert 3 ** (minimum_without_mask(hops) - 1) < 4 * hops + 1 <= 3 ** minimum_without_mask(hops)
    assert 2 ** (minimum_causal(hops) - 2) <= hops < 2 ** (minimum_causal(hops) - 1)


@pytest.mark.parametrize("power", range(1, 40))
def test_steps_stand_exactly_at_the_powers(power: int) -> None:
    # 3^t is 1 or 3 modulo 4 by turns; (3^t - 1) / 4 is whole for even t, and that D is the last that t layers reach.
    last = 3 ** (2 * power) // 4
    assert minimum_without_mask(last) == 2 * power
    assert minimum_without_mask(last + 1) == 2 * power + 1
    assert minimum_causal(2**power - 1) == power + 1
    assert minimum_causal(2**power) == power + 2


@given(st.integers(1, 10**9))
def test_order_of_the_columns_and_growth(hops: int) -> None:
    row, following = depths(hops), depths(hops + 1)
    assert row.theorem_1 <= row.no_mask <= row.causal == row.causal_one_head == row.causal_head_a_row + 1
    assert row.theorem_1 <= row.causal_head_a_row
    for name in ("theorem_1", "no_mask", "causal", "causal_one_head", "causal_head_a_row"):
        assert getattr(row, name) <= getattr(following, name) <= getattr(row, name) + 1


@pytest.mark.parametrize("bad", [0, -3, 2.0, True, "4"])
def test_hops_that_are_no_count(bad: object) -> None:
    with pytest.raises(InputError, match="hops must be a whole number of at least 1"):
        depths(bad)  # type: ignore[arg-type]


def test_a_row_reads_as_the_contract_says() -> None:
    assert list(Depths.__dataclass_fields__) == [
        "hops",
        "theorem_1",
        "no_mask",
        "causal",
        "causal_one_head",
        "causal_head_a_row",
    ]
