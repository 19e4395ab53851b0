"""A head for every row: the judge refuses planted data in which the claim is false, or says nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from planted_studies import Times, condition

from hopscope.problem.retrieval import RetrievalProblem
from studies import rows
from studies.rows import RowsResult
from studies.tools.position_based import PositionTest, RowsMoved

pytestmark = pytest.mark.slow

SAVED_3, SAVED_4 = (f"with one head per row, {hops} hops are answered a layer early" for hops in (3, 4))
BY_PLACE = "what is learned a layer early is position-based"
NEVER_TWO = "no hop is learned with fewer layers than one head per row needs, and fewer than half would learn one"


def found(learned: Mapping[tuple[int, int], tuple[int, ...]], lost: Mapping[str, float] | None = None) -> RowsResult:
    """By hops and layers, six seeds' last hops (hop k at step 100 k), and the losses of some where rows are moved."""
    made = []
    for (hops, layers), last in learned.items():
        times: Times = [[100 * hop if hop <= known else None for hop in range(1, hops + 1)] for known in last]
        problem = RetrievalProblem(hops=hops, chains=2)
        made.append(condition(f"{hops}-hops-{layers}-layers", problem, times, layers=layers, heads=32))
    tests = []
    for name, loss in (lost or {}).items():
        losses = (0.02,) * int(name[0])
        after = (*losses[:-1], loss)
        tests += [
            PositionTest(f"{name}/seed-{n}", losses, (RowsMoved(1, 2, after, after, losses, 1.0),)) for n in range(6)
        ]
    return RowsResult(tuple(made), tuple(tests))


LAWFUL = {(3, 2): (3, 2, 2, 3, 0, 1), (3, 3): (3,) * 6}
LAWFUL |= {(4, 2): (3,) * 6, (4, 3): (4, 3, 3, 3, 2, 3), (4, 4): (4,) * 6}


def verdicts(
    learned: Mapping[tuple[int, int], tuple[int, ...]], lost: Mapping[str, float] | None = None
) -> dict[str, str]:
    return {judgement.hypothesis: judgement.verdict for judgement in rows.judge(found(learned, lost))}


def test_what_theory_says_and_position_based_models() -> None:
    all_rules = SAVED_3, SAVED_4, NEVER_TWO, BY_PLACE
    assert verdicts(LAWFUL, {"3-hops-2-layers": 1.5}) == dict.fromkeys(all_rules, "confirmed")
    assert verdicts(LAWFUL)[BY_PLACE] == "not run"
    assert verdicts(LAWFUL, {"3-hops-2-layers": 0.06})[BY_PLACE] == "refuted"
    assert verdicts(LAWFUL, {"3-hops-3-layers": 1.5})[BY_PLACE] == "not run"  # with enough layers it does not count
    assert verdicts(LAWFUL, {"3-hops-2-layers": 1.5, "4-hops-3-layers": 0.06})[BY_PLACE] == "inconclusive"
    assert "/seed-0 | x2, x3 | 0.020, 0.020 | 0.02, 1.50 |" in rows.table(found(LAWFUL, {"3-hops-2-layers": 1.5}))


@pytest.mark.parametrize(("hypothesis", "shape"), [(SAVED_3, (3, 2)), (SAVED_4, (4, 3))])
def test_a_layer_that_is_not_saved(hypothesis: str, shape: tuple[int, int]) -> None:
    """What is learned but for the last hop, or with layers enough alone, saves nothing."""
    none = LAWFUL | {shape: (shape[0] - 1,) * 17}
    assert verdicts(none)[hypothesis] == "refuted"
    assert verdicts(none | {shape: (shape[0] - 1,) * 16})[hypothesis] == "inconclusive"  # up to a fifth would
    control = (shape[0], shape[1] + 1)
    assert verdicts(none | {control: (2,) * 6})[hypothesis] == "inconclusive"  # nobody learns it
    assert verdicts(none | {control: (2,) * 6, shape: (shape[0],) + (1,) * 5})[hypothesis] == "confirmed"
    assert verdicts(none | {shape: ()})[hypothesis] == "not run"
    one_so_far = (shape[0] - 2,) * 5 + (shape[0] - 1,)
    assert verdicts(none | {shape: one_so_far})[hypothesis] == "inconclusive"


def test_two_layers_saved() -> None:
    assert verdicts(LAWFUL | {(4, 2): (4, 1, 1, 2, 2, 3)})[NEVER_TWO] == "refuted"
    assert verdicts(LAWFUL | {(4, 2): (0,) * 6})[NEVER_TWO] == "inconclusive"  # who learns nothing cannot say
    assert verdicts(LAWFUL | {(4, 2): (2,) * 5 + (3,)})[NEVER_TWO] == "inconclusive"  # nor who stops before
    assert verdicts(LAWFUL | {(4, 2): (3,) * 5})[NEVER_TWO] == "inconclusive"  # too few
    assert verdicts(LAWFUL | {(4, 3): (3,) * 6, (4, 4): (3,) * 6})[NEVER_TWO] == "inconclusive"  # nobody learns it
    assert verdicts(LAWFUL | {(4, 2): ()})[NEVER_TWO] == "not run"
