"""What the paper leaves unsaid: the judge takes a long plateau for the paper's alone if all seeds have it and learn."""

from __future__ import annotations

import pytest
from planted_studies import condition

from hopscope.errors import InputError
from hopscope.paper.recipes import D
from hopscope.problem.retrieval import RetrievalProblem
from studies import unsaid
from studies.figures.unsaid import unsaid as draw
from studies.tools.conditions import Condition, Conditions

pytestmark = pytest.mark.slow

LONG = [[3600, 3900, 4200, 5800], [1800, 2000, 2100, 2200], [6000, 6100, 6200, 6400]]
"""Late enough, and learned to the end, at the edges too: step 1,792 is half the paper's share."""


def read_so(*learned: list[int | None], name: str = "pair-codes", missing: int = 0) -> Condition:
    return condition(name, RetrievalProblem(hops=4), learned, missing, layers=24, heads=1, steps=6_400)


def verdict(one: Condition) -> str:
    return unsaid.judge(Conditions((one,)))[0].verdict


def test_a_long_plateau_that_ends() -> None:
    assert verdict(read_so(*LONG)) == "confirmed"
    assert verdict(read_so([1792, 2000, 3000, 4000])) == "confirmed"  # 0.28 of 6,400, but for rounding
    assert verdict(read_so(*LONG[:2], missing=1)) == "inconclusive"
    assert verdict(read_so(missing=3)) == "not run"


@pytest.mark.parametrize(
    "seed", [[1791, 4000, 4200, 5000], [None] * 4, [3600, 3900, 4200, None], [None, 3900, 4200, 4300]]
)
def test_one_seed_is_enough_to_refute(seed: list[int | None]) -> None:
    """Too short, endless, learned but for the last hop, or but for the first."""
    assert verdict(read_so(*LONG[:2], seed)) == "refuted"
    assert verdict(read_so(seed, missing=2)) == "refuted"


def ordered(*steps: int | None, missing: int = 0) -> str:
    """The verdict on the stand-in, of the time of x1 in all seeds of each condition."""
    named = zip(unsaid.ORDERED, steps, strict=False)
    conditions = [read_so(*([[step] * 4] * 3), name=name, missing=missing) for name, step in named]
    return unsaid.judge(Conditions(tuple(conditions)))[-1].verdict


def test_the_stand_in_orders_as_the_whole() -> None:
    assert ordered(500, 700, 950, None) == "confirmed"
    assert ordered(500, 950, 700, None) == "refuted"
    assert ordered(500, 700, None, None) == "inconclusive"  # two that never learn are in no order
    assert ordered(None, None, None, None) == "inconclusive"
    assert ordered(500, 400, None, None) == ordered(500, None, 700, None) == "refuted"
    assert ordered(500, 500, 950, None) == "inconclusive"
    assert ordered(500, 700, 950) == "inconclusive"
    assert ordered(500, 700, 950, None, missing=1) == "inconclusive"
    assert ordered() == "not run"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [((900, 1000, None), "confirmed"), ((800, 1000, None), "inconclusive"), ((400, 460, 490), "refuted")],
)
def test_readings_whose_seeds_overlap_are_in_no_order(last: tuple[int | None, ...], verdict: str) -> None:
    """Their medians would be in order in all, or all but the last."""
    times = ((300, 400, 450), (500, 600, 650), (700, 750, 850), last)
    conditions = [
        read_so(*([step] * 4 for step in time), name=name) for name, time in zip(unsaid.ORDERED, times, strict=True)
    ]
    assert unsaid.judge(Conditions(tuple(conditions)))[-1].verdict == verdict


def test_the_figure_has_a_mark_for_every_seed_where_it_learned() -> None:
    """And an arrow where it did not, the two sizes beside one another, readings in the study's order."""
    small = read_so([700, 800, 900, 1000], [400, 500, 600, None], name="GPT-2-scales")
    full = read_so([3000, 3100, 3200, 3300], name=f"{unsaid.FULL}default")
    figure = draw(Conditions((small, full, read_so(name="pair-codes", missing=3))))
    marks = [
        {(line.get_marker(), *line.get_xdata()) for line in axes.get_lines() if line.get_marker() != "None"}
        for axes in figure.axes
    ]
    marks[0] = {mark for mark in marks[0] if len(mark) > 1}  # those of the legend are nowhere
    assert marks == [{("o", 700), ("o", 1000), ("o", 400), (">", D.recipe.steps)}, {("o", 3000), ("o", 3300)}]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["default", "GPT-2 scales"]
    with pytest.raises(InputError, match="nothing to draw"):
        draw(Conditions((read_so(missing=3),)))
