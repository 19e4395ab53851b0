"""Depth, orders and learning: the judges refuse planted data in which the claim is false, or says nothing."""

from __future__ import annotations

import pytest
from matplotlib.colors import same_color
from planted_studies import CONDITION, MIXED, THREE, condition, learns

from hopscope.paper.recipes import LAPTOP
from hopscope.plot.style import VERMILION
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import minimum_of_hop
from studies import depth, learning
from studies.figures.depth import depth as figure
from studies.tools.conditions import Condition, Conditions

MANY, ONE = {"heads": LAPTOP.heads}, {"heads": 1}


def lawful(causal: bool = True, seeds: int = 6, heads: dict[str, int | None] = MANY) -> list[Condition]:
    """What theory says: every hop that the layers allow, no other."""
    found = []
    for hops in range(1, 9):
        problem = RetrievalProblem(hops=hops, causal=causal)
        needs = [minimum_of_hop(problem, hop, one_head=heads is ONE) for hop in range(1, hops + 1)]
        for layers in (needs[-1] - 1, needs[-1], needs[-1] + 1):
            if layers:
                learned = learns(hops, seeds, sum(need <= layers for need in needs))
                found.append(condition(f"{hops}/{layers}", problem, learned, layers=layers, **heads))
    return found


def verdicts(found: list[Condition]) -> list[str]:
    return [judgement.verdict for judgement in depth.judge(Conditions(tuple(found)))]


@pytest.mark.parametrize(("causal", "heads"), [(True, MANY), (False, MANY), (True, ONE), (False, ONE)])
def test_what_follows_the_law_is_confirmed(causal, heads):
    assert verdicts(lawful(causal, heads=heads)) == ["confirmed"] * 9


def test_one_run_beyond_its_depth_refutes_both():
    found = lawful()
    place = next(n for n, known in enumerate(found) if known.last == 4 and known.layers == 3)
    found[place] = condition("4/3", found[place].problem, learns(4, 6, 3)[:5] + learns(4, 1), layers=3)
    answers = depth.judge(Conditions(tuple(found)))
    assert answers[0].verdict == "refuted"
    assert "1 runs do" in answers[0].observed
    assert answers[4].verdict == "refuted"


def test_nothing_learned_says_nothing():
    """Models that never learn stay within every bound."""
    found = [condition(known.name, known.problem, learns(known.last, 6, 0), layers=known.layers) for known in lawful()]
    assert set(verdicts(found)) == {"inconclusive"}


def test_training_that_needs_a_layer_more_refutes():
    found = lawful()
    place = next(n for n, known in enumerate(found) if known.last == 4 and known.layers == 4)
    found[place] = condition("4/4", found[place].problem, learns(4, 6, 3), layers=4)
    assert verdicts(found)[4] == "refuted"
    deeper = next(n for n, known in enumerate(found) if known.last == 4 and known.layers == 5)
    for many, verdict in ((1, "inconclusive"), (3, "inconclusive"), (4, "refuted")):  # Fisher: 0.5, 0.09, 0.03
        learned = learns(4, 6 - many, 3) + learns(4, many)
        found[deeper] = condition("4/5", found[deeper].problem, learned, layers=5)
        assert verdicts(found)[4] == verdict


def test_one_that_came_as_far_as_its_depth_allows_does_not_say_that_none_goes_on():
    """Planted: of six or of twelve with a layer less some learned what they may, and none all."""
    found = lawful()
    place = next(n for n, known in enumerate(found) if known.last == 4 and known.layers == 3)
    for some, others, verdict in ((1, 5, "inconclusive"), (5, 7, "inconclusive"), (6, 6, "confirmed")):
        learned = learns(4, some, 3) + learns(4, others, 1)
        found[place] = condition("4/3", found[place].problem, learned, layers=3)
        assert verdicts(found)[4] == verdict


def test_a_depth_that_does_no_better_than_a_layer_less_is_no_minimum():
    """Planted: so many learn all at the theory's depth, and none of so many with a layer less, all of which could."""
    found = lawful()
    of_four = {known.layers: place for place, known in enumerate(found) if known.last == 4}
    problem = RetrievalProblem(hops=4)
    for there, less, verdict in ((3, 6, "inconclusive"), (4, 6, "confirmed"), (2, 30, "confirmed")):
        found[of_four[3]] = condition("4/3", problem, learns(4, less, 3), layers=3)
        found[of_four[4]] = condition("4/4", problem, learns(4, there) + learns(4, 6 - there, 3), layers=4)
        assert verdicts(found)[4] == verdict


def test_few_seeds_carry_no_never_and_none_say_nothing():
    assert verdicts(lawful(seeds=1))[0] == "inconclusive"
    assert set(verdicts([condition("4/4", RetrievalProblem(hops=4), [], layers=4)])) == {"not run"}


def test_the_figure_reddens_what_theory_forbids():
    found = lawful()
    assert red_discs(found) == []
    broken = [condition("4/3", RetrievalProblem(hops=4), learns(4, 3), layers=3)]
    assert red_discs([*found, *broken]) == [[4, 3]]


def red_discs(found: list[Condition]) -> list[list[float]]:
    discs = figure(Conditions(tuple(found))).axes[0].collections
    red = [disc for disc in discs if same_color(disc.get_facecolor()[0], VERMILION) and disc.get_sizes()[0]]
    return [disc.get_offsets()[0].tolist() for disc in red]


def of_learning(one: Condition) -> str:
    return learning.judge(Conditions((one,)))[0].verdict


def test_the_wanted_share():
    """Nine in ten must learn x3 with three layers."""
    good, bad = learns(3, 9), learns(3, 1, 2)
    assert of_learning(condition("a", THREE, good + bad, layers=3)) == "confirmed"
    assert of_learning(condition("a", THREE, learns(3, 8) + bad + bad, layers=3)) == "refuted"
    assert of_learning(condition("a", THREE, good[:2], layers=3, missing=8)) == "inconclusive"
    assert of_learning(condition("a", THREE, [], layers=3)) == "not run"


def test_what_theory_rules_out_refutes():
    shallow = condition("2-layers", THREE, MIXED, layers=2)
    assert shallow.beyond_theory == 3
    assert of_learning(shallow) == "refuted"
    assert of_learning(condition("2-layers", THREE, learns(3, 4, 1), layers=2)) == "confirmed"
    assert CONDITION.beyond_theory == 0
