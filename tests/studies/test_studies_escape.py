"""A layer saved by reading by position: what the judge says of planted seeds, by chains and heads per row."""

from __future__ import annotations

import pytest
from planted_studies import condition, learns

from hopscope.problem.retrieval import RetrievalProblem
from studies.escape import EscapeResult, judge

pytestmark = pytest.mark.slow


def verdicts(two: int, four: int, eight: int, one_layer: int = 6) -> list[str]:
    """The verdicts where so many seeds of twenty, twenty and six learn x2 early; a control of eight chains does."""
    one = condition("1", RetrievalProblem(hops=3, chains=1), learns(3, 6)[:one_layer], layers=1, heads=4)
    made = [one]
    for chains, seeds, early in ((4, 20, four), (2, 20, two), (8, 6, eight)):
        times = learns(2, early) + learns(2, seeds - early, upto=1)
        made.append(condition(str(chains), RetrievalProblem(hops=2, chains=chains), times, layers=2, heads=2 * chains))
    made.append(condition("deep", RetrievalProblem(hops=2, chains=8), learns(2, 1), layers=3, heads=16))
    return [judgement.verdict for judgement in judge(EscapeResult(tuple(made), ()))]


def test_planted_seeds() -> None:
    assert verdicts(14, 1, 0) == ["confirmed", "confirmed", "confirmed", "not run", *["not run"] * 5]
    assert verdicts(14, 14, 4)[1] == "inconclusive"  # heads per row alone decide
    assert verdicts(2, 15, 6)[1:3] == ["refuted", "refuted"]
    assert verdicts(14, 1, 0, one_layer=5)[0] == "inconclusive"
