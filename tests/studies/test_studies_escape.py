"""A layer saved by reading by position: what the judge says of planted seeds, by chains and heads per row."""

from __future__ import annotations

import pytest
from planted_studies import condition, learns

from hopscope.problem.retrieval import RetrievalProblem
from studies.escape import CELLS, EscapeResult, judge

pytestmark = pytest.mark.slow


def verdicts(two: int, four: int, eight: int, one_layer: int = 6, later: tuple[int, ...] = ()) -> str:
    """The first letters of the verdicts where so many of the planned seeds learn x2 early, also of the later plans."""
    made = [condition("1", RetrievalProblem(hops=3, chains=1), learns(3, 6)[:one_layer], layers=1, heads=4, steps=1000)]
    for cell, early in zip(CELLS[3:], (two, four, eight, 1, *later), strict=False):
        times = learns(2, early) + learns(2, cell.seeds - early, upto=1)
        shape = {"layers": cell.layers, "heads": cell.heads, "steps": 1000 * cell.longer}
        made.append(condition(cell.name, RetrievalProblem(hops=2, chains=cell.chains), times, **shape))
    return "".join(judgement.verdict[0] for judgement in judge(EscapeResult(tuple(made), ())))


def test_planted_seeds() -> None:
    assert verdicts(14, 1, 0) == "cccn" + "nnnnnn"
    assert verdicts(14, 10, 4)[1] == "i"  # heads per row alone decide
    assert verdicts(2, 10, 6)[1:3] == "rr"
    assert verdicts(14, 1, 0, one_layer=5)[0] == "i"
    assert verdicts(14, 0, 0, later=(10, 1, 8, 0, 4))[4:] == "icccrc"
    assert verdicts(2, 12, 0, later=(14, 8, 1, 7, 1))[4:] == "rirrir"
    assert verdicts(2, 1, 0, later=(1, 8, 1, 8, 2))[8:] == "ci"
