"""A layer saved by reading by position: what the judge says of planted seeds, by chains and heads per row."""

from __future__ import annotations

import pytest
from planted_studies import condition, learns

from hopscope.problem.retrieval import RetrievalProblem
from studies.escape import EscapeResult, judge

pytestmark = pytest.mark.slow


def verdicts(two: int, four: int, eight: int, one_layer: int = 6, second: tuple[int, ...] = ()) -> list[str]:
    """The verdicts where so many seeds of twenty, twenty and six learn x2 early; a control of eight chains does.
    `second` is for the second plan: how many of 20, 8, 8 and 8."""
    one = condition("1", RetrievalProblem(hops=3, chains=1), learns(3, 6)[:one_layer], layers=1, heads=4)
    made = [one]
    first = ((4, 8, 20, four), (2, 4, 20, two), (8, 16, 6, eight))
    cells = ((3, 6, 20), (4, 16, 8), (2, 8, 8), (2, 2, 8))
    for chains, heads, seeds, early in (*first, *((*cell, n) for cell, n in zip(cells, second, strict=False))):
        times = learns(2, early) + learns(2, seeds - early, upto=1)
        name, problem = f"{chains}-{heads}", RetrievalProblem(hops=2, chains=chains)
        made.append(condition(name, problem, times, layers=2, heads=heads))
    made.append(condition("deep", RetrievalProblem(hops=2, chains=8), learns(2, 1), layers=3, heads=16))
    return [judgement.verdict for judgement in judge(EscapeResult(tuple(made), ()))]


def test_planted_seeds() -> None:
    assert verdicts(14, 1, 0) == ["confirmed", "confirmed", "confirmed", "not run", *["not run"] * 6]
    assert verdicts(14, 14, 4)[1] == "inconclusive"  # heads per row alone decide
    assert verdicts(2, 15, 6)[1:3] == ["refuted", "refuted"]
    assert verdicts(14, 1, 0, one_layer=5)[0] == "inconclusive"
    as_forecast = ["inconclusive", "confirmed", "confirmed", "confirmed", "refuted"]
    assert verdicts(14, 1, 0, second=(10, 1, 8, 0))[4:9] == as_forecast
    assert verdicts(2, 14, 0, second=(14, 8, 1, 7))[4:6] == ["refuted", "inconclusive"]
    assert verdicts(2, 14, 0, second=(2, 8, 1, 8))[5:9] == ["refuted", "refuted", "refuted", "confirmed"]
