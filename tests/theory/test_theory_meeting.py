"""Circuits of questions in which look-ups meet: what delivers by theory, and what only seems to."""

from __future__ import annotations

from itertools import product

import pytest

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.delivery import Delivery, deliver
from hopscope.theory.depth import minimum_in_order, minimum_of_hop
from hopscope.theory.information_flow import minimum_layers
from hopscope.theory.scene import problem_scene

PROBLEMS = {"functions": RetrievalProblem(3, graph="functions"), "relatives": RetrievalProblem(4, graph="relatives")}
CIRCUITS = {
    "functions": (
        "L1.H1 >0 -> i>", "L1.H1 >a -> f>", "L1.H1 >3 -> 0>", "L1.H2 >3 -> a>", "L1.H3 i? -> f?", "L2.H1 i? -> >0",
        "L2.H2 i? -> >a", "L3.H1 i? -> >3",
    ),
    "relatives": (
        "L1.H1 >lawyer -> Eve>lawyer", "L1.H1 >mother -> lawyer>", "L1.H1 >Lily -> mother>", "L1.H2 >Lily -> Eve>Lily",
        "L1.H1 >Brazil -> Lily>", "L2.H1 Eve? -> >lawyer", "L2.H1 >Lily -> >Brazil", "L3.H1 Eve? -> >mother",
        "L4.H1 Eve? -> >Lily",
    ),
}  # fmt: skip


def follow(name: str, *paths: str) -> Delivery:
    problem = PROBLEMS[name]
    return deliver(problem.hops, [AttentionPath.parse(path, problem.roles) for path in paths], problem_scene(problem))


@pytest.mark.parametrize(("name", "layers"), [("functions", (2, 2, 3)), ("relatives", (2, 3, 4, 4))])
def test_layers_needed(name: str, layers: tuple[int, ...]) -> None:
    problem = PROBLEMS[name]
    assert minimum_in_order(problem) == minimum_layers(problem) == layers[-1]
    assert tuple(minimum_of_hop(problem, hop) for hop in range(1, problem.hops + 1)) == layers


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_circuit_of_the_least_depth_delivers_and_needs_every_path(name: str) -> None:
    whole = follow(name, *CIRCUITS[name])
    assert whole.delivered
    assert not whole.refused
    assert not whole.idle
    assert len(whole.growth) - 1 == minimum_layers(PROBLEMS[name])
    for left_out in CIRCUITS[name]:
        rest = follow(name, *(path for path in CIRCUITS[name] if path != left_out))
        assert not rest.delivered, left_out
        assert "and not" in rest.broken


def test_one_key_of_two_does_not_tell_a_fact_from_its_distractors() -> None:
    """The look at >3 knowing `0` alone shares something with it, and is refused all the same."""
    one_key = [path for path in CIRCUITS["functions"] if ">a" not in path.split() and "a>" not in path]
    flow = follow("functions", *one_key)
    assert flow.hops == (1,)
    assert [path.describe(PROBLEMS["functions"].roles) for path in flow.refused] == ["layer 3 head 1: i? -> >3"]
    assert flow.delivered_if_waived
    assert "shares" not in flow.broken
    assert "tells the place from its distractors" in flow.broken


def test_what_a_fact_collects_its_distractors_collect_too() -> None:
    """If the value knew one key and the distractors did not, that key would seem enough."""
    scene, problem = problem_scene(PROBLEMS["functions"]), PROBLEMS["functions"]
    from hopscope.theory.delivery import by_layer
    from hopscope.theory.delivery import follow as run

    paths = [AttentionPath.parse(path, problem.roles) for path in ("L1.H1 >3 -> a>", "L1.H2 >3 -> 0>")]
    history = run(scene, by_layer(paths, scene.roles)).history
    value = problem.roles.index(">3")
    for row in scene.distractors:
        assert bin(history[-1][row[value]]).count("1") == 4  # its place, both keys, its own value


def test_both_keys_may_meet_on_the_way() -> None:
    """One after the other serves as well as side by side."""
    late = [path.replace("L2.H2", "L3.H2").replace("L3.H1", "L4.H1") for path in CIRCUITS["functions"]]
    assert follow("functions", *late).delivered
    too_late = [path.replace("L2.H2", "L3.H2") for path in CIRCUITS["functions"]]
    assert not follow("functions", *too_late).delivered


def test_no_circuit_is_shallower_than_the_minimum() -> None:
    """Everybody looking at everybody in two layers does not answer functions, in three it does."""
    problem = PROBLEMS["functions"]
    scene = problem_scene(problem)
    for layers, enough in ((2, False), (3, True)):
        pairs = [(q, k) for q in range(scene.roles) for k in range(scene.roles) if q != k and scene.visible[q] >> k & 1]
        paths = [AttentionPath(layer, 0, *pair) for layer, pair in product(range(layers), pairs)]
        assert deliver(3, paths, scene).delivered is enough
