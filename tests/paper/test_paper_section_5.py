"""Section 5: the simulation is judged and not asserted, and the trained models are held against it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest
from made_results import trained

from hopscope.paper import section_5
from hopscope.paper.claims import Finding
from hopscope.paper.section_5 import TheoryResult, judge
from hopscope.paper.section_7 import TrainedModel

LOW, HIGH = 0.01, 0.75


def learners(layers: int, *hops_learned: int, hops: int = 3) -> list[TrainedModel]:
    losses = [[LOW if hop < count else HIGH for hop in range(hops)] for count in hops_learned]
    return trained(layers, hops=hops, losses=losses)


AS_THEORY_SAYS = (learners(1, 0, 0, 0), learners(2, 1, 0), learners(3, 2, 3), learners(4, 3, 1))


def judged(*models: list[TrainedModel], hops: int = 6) -> dict[str, Finding]:
    result = TheoryResult("laptop", 3, section_5.simulated(hops), tuple(chain(*models)))
    return {finding.id: finding for finding in judge(result)}


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """Nothing that was simulated before or elsewhere counts."""
    section_5.simulated.cache_clear()
    yield
    section_5.simulated.cache_clear()


def test_a_theorem_is_checked_by_simulation_and_held_against_runs() -> None:
    found = judged(*AS_THEORY_SAYS, hops=12)
    assert {finding.as_the_paper for finding in found.values()} == {"theorem, checked"}
    assert found["C1"].numbers.startswith("solved in 0 of ")
    assert "agrees with our exact formulas at every D" in found["C1"].numbers
    assert "0 of " in found["C2"].numbers
    assert "2, 4, 10" in found["C2"].numbers
    assert (found["C1"].share, found["C2"].in_general) == ((3, 3), "theorem, checked")
    assert all("D = 1..12" in finding.scale for finding in found.values())


def test_a_simulation_that_leaks_fails_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything to everybody at once, with a hole."""

    def leak(scene: section_5.Scene) -> list[tuple[int, ...]]:
        everything = (1 << len(scene.pieces)) - 1
        return [scene.holdings, tuple(everything ^ 0b100 for _ in scene.holdings)]

    monkeypatch.setattr(section_5, "spread", leak)
    assert [finding.as_the_paper for finding in judged(*AS_THEORY_SAYS).values()] == ["no"] * 2


def test_a_run_that_learns_beyond_its_depth_is_no_case_as_claimed() -> None:
    found = judged(learners(1, 0, 2, 0), *AS_THEORY_SAYS[1:])["C1"]
    assert (found.as_the_paper, found.share) == ("theorem, checked", (2, 3)), "training does not touch the theorem"
    assert judged(learners(1, 2))["C1"].share == (0, 1), "a counterexample needs no control"


def test_what_theorem_1_allows_is_no_exception_and_is_reported() -> None:
    """One hop in one layer, by looking away, and three in two: fewer than our exact minimum, more than log3(2D)."""
    found = judged(learners(1, 1, 0, 0), learners(2, 3, 1), *AS_THEORY_SAYS[2:])["C1"]
    assert found.share == (3, 3)
    assert "3 hops learned below the exact minimum" in found.spread
    only_deeper = judged(learners(2, 1, 1, 1, 1), *AS_THEORY_SAYS[2:])["C1"]
    assert only_deeper.in_general == "not run", "what theory allows is no test of it"
