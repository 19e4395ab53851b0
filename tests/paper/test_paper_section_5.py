"""Section 5: the simulation is judged and not asserted, and the trained models are held against it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest
from made_results import trained

from hopscope.paper import section_5
from hopscope.paper.claims import Finding
from hopscope.paper.section_5 import TheoryResult, judge, section
from hopscope.paper.section_7 import TrainedModel

LOW, HIGH = 0.01, 0.75


def learners(layers: int, *hops_learned: int, hops: int = 3) -> list[TrainedModel]:
    losses = [[LOW if hop < count else HIGH for hop in range(hops)] for count in hops_learned]
    return trained(layers, hops=hops, losses=losses)


AS_THEORY_SAYS = (learners(1, 0, 0, 0), learners(2, 1, 0), learners(3, 2, 3), learners(4, 3, 1))


def judged(*models: list[TrainedModel], hops: int = 6) -> dict[str, Finding]:
    return {finding.id: finding for finding in judge(TheoryResult.of("laptop", 3, list(chain(*models)), hops))}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Six hops take no time, and are judged like 64; nothing that was simulated before or elsewhere counts."""
    monkeypatch.setattr(section_5, "_CLAIMED", 6)
    section_5._simulated.cache_clear()
    yield
    section_5._simulated.cache_clear()


@pytest.mark.slow
def test_a_simulation_that_stops_short_of_the_papers_64_hops_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for finding in judged(*AS_THEORY_SAYS, hops=12).values():
        assert (finding.verdict, finding.reason) == ("inconclusive", "simulated to D = 12 only")
    assert {finding.verdict for finding in judged(*AS_THEORY_SAYS, hops=64).values()} == {"reproduced"}
    assert judged(learners(1, 2), hops=12)["C1"].verdict == "not reproduced", "an exception is one however few"


def test_simulation_and_training_that_agree_are_reproduced() -> None:
    found = judged(*AS_THEORY_SAYS, hops=12)
    assert {finding.verdict for finding in found.values()} == {"reproduced"}
    assert "solved in 0 of" in found["C1"].observed
    assert "0 of 6 hops with t < log3(2D) learned, in 3 runs put to the test, and 0 others" in found["C1"].observed
    assert "residual streams 0 are not one run and 0 are longer than 3^t + 1" in found["C2"].observed
    assert "2, 4, 10" in found["C2"].observed
    assert (found["C1"].n, found["C2"].n) == (3, 3)
    assert found["C1"].interval == "exceptions in 0% to 71% of runs"
    assert all("D = 1..12" in finding.scale for finding in found.values())


def test_a_simulation_that_leaks_fails_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything to everybody at once, with a hole."""

    def leak(scene: section_5.Scene) -> list[tuple[int, ...]]:
        everything = (1 << len(scene.pieces)) - 1
        return [scene.holdings, tuple(everything ^ 0b100 for _ in scene.holdings)]

    monkeypatch.setattr(section_5, "spread", leak)
    assert [finding.verdict for finding in judged(*AS_THEORY_SAYS).values()] == ["not reproduced"] * 2


def test_one_run_that_learns_beyond_its_depth_refutes_both() -> None:
    found = judged(learners(1, 0, 2, 0), *AS_THEORY_SAYS[1:])
    assert {finding.verdict for finding in found.values()} == {"not reproduced"}
    assert "1 of 6 hops with t < log3(2D) learned" in found["C1"].observed
    alone = judged(learners(1, 2))["C1"]
    assert alone.verdict == "not reproduced", "a counterexample needs no control"


def test_what_theorem_1_allows_refutes_nothing_and_is_reported() -> None:
    """One hop in one layer, by looking away, and three in two: fewer than our exact minimum, more than log3(2D)."""
    found = judged(learners(1, 1, 0, 0), learners(2, 3, 1), *AS_THEORY_SAYS[2:])
    assert {finding.verdict for finding in found.values()} == {"reproduced"}
    assert "0 of 6 hops with t < log3(2D) learned" in found["C1"].observed
    assert "and 3 others below the exact minimum" in found["C1"].observed
    only_deeper = judged(learners(2, 1, 1, 1, 1), *AS_THEORY_SAYS[2:])["C1"]
    assert (only_deeper.verdict, only_deeper.n) == ("inconclusive", 0), "what theory allows is no test of it"


def test_a_hop_learned_without_the_one_before_it_refutes_c2() -> None:
    gap = trained(4, losses=[[LOW, HIGH, LOW]])
    found = judged(*AS_THEORY_SAYS, gap)
    assert (found["C1"].verdict, found["C2"].verdict) == ("reproduced", "not reproduced")


def test_a_simulation_alone_cannot_be_refuted_and_is_inconclusive() -> None:
    assert [finding.verdict for finding in judged().values()] == ["inconclusive"] * 2
    deep_enough = judged(learners(12, 3, 3, 3, 3))
    assert deep_enough["C1"].verdict == "inconclusive", "no hop lies beyond 12 layers"
    assert deep_enough["C1"].n == 0
    assert deep_enough["C2"].verdict == "reproduced"


def test_the_flow_is_drawn_with_both_masks() -> None:
    (figure,) = section(TheoryResult.of("laptop", 2, (), 2)).figures
    titles = [axes.get_title(loc="left") for axes in figure.figure.axes]
    shared = "What positions share before any layer, D = 2"
    assert all(title.startswith((shared, "What the query can know, no mask", "What the query can know, causal mask"))
               for title in titles)  # fmt: skip
    assert figure.caption.startswith(shared)
