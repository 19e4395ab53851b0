"""Conditional retrieval: the published questions with all their lines, and circuits of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.problem.graph import Graph, Step
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import minimum_in_order, minimum_of_hop
from hopscope.theory.information_flow import min_layers
from hopscope.theory.path_flow import Delivery, deliver
from hopscope.theory.scene import problem_scene

GOLDEN = Path(__file__).parent.parent / "text" / "golden"
PROBLEMS = {"functions": RetrievalProblem(3, graph="functions"), "relatives": RetrievalProblem(4, graph="relatives")}
_LINES = {
    "functions": {"table": r"([a-d])\((\d)\) = (\d)", "alias": r"([e-h]) = ([a-d])", "argument": r"([i-l]) = (\d)"},
    "relatives": {
        "home": r"(\w+) lives in (\w+)\.",
        "relation": r"(\w+)s (mother|sister|father|brother) is (\w+)\.",
        "habit": r"(\w+)s live with their (\w+)s\.",
        "work": r"(\w+) works as an? (\w+)\.",
    },
}


@pytest.mark.parametrize(("name", "causal", "layers"), [
    ("functions", True, 3), ("functions", False, 3), ("relatives", True, 4), ("relatives", False, 3),
])  # fmt: skip
def test_published_prompts_need_the_same_layers(name: str, causal: bool, layers: int) -> None:
    """The whole published prompt, every line of it, needs as many layers as the graph with its few distractors."""
    known, target = (("f", "i"), "3") if name == "functions" else (("Eve",), "Brazil")
    assert min_layers(replace(PROBLEMS[name], causal=causal)) == layers
    assert _depth_in_full_text(name, known, target, causal) == layers


def _depth_in_full_text(name: str, known: tuple[str, ...], target: str, causal: bool) -> int:
    rows: list[tuple[str, tuple[str, ...]]] = []
    for line in (GOLDEN / f"{name}.txt").read_text().splitlines():
        for kind, pattern in _LINES[name].items():
            if found := re.fullmatch(pattern, line):
                rows.append((kind, tuple(word.lower() for word in found.groups())))
    assert len(rows) == {"functions": 24, "relatives": 40}[name]
    rows.append(("question", tuple(word.lower() for word in known)))
    kinds = [(kind, token) for kind, row in rows for token in range(len(row))]
    history = [[frozenset({number, word}) for number, (_, row) in enumerate(rows) for word in row]]
    while target.lower() not in history[-1][-1]:
        now = history[-1]
        history.append([_learn(i, history, kinds, causal) for i in range(len(now))])
    return len(history) - 1


Holdings = list[frozenset[object]]


def _learn(i: int, history: list[Holdings], kinds: list[tuple[str, int]], causal: bool) -> frozenset[object]:
    now = history[-1]
    seen, learned = range(i + 1 if causal else len(now)), now[i]
    for j in seen:
        alike = [k for k in seen if k != j and kinds[k] == kinds[j]]
        meetings = ((now[i] & then[j], then) for then in history)
        if any(shared and not any(shared <= then[k] for k in alike) for shared, then in meetings):
            learned |= now[j]
    return learned


def test_a_distractor_replaces_all_that_follows_from_its_value() -> None:
    """What does not follow from it is the same symbol."""
    steps = (Step(("a",), "b"), Step(("b", "c"), "d"), Step(("d", "e"), "f"), Step(("d",), "g"), Step(("f", "g"), "h"))
    (first, *_) = (other for other in Graph(("a", "c", "e"), steps).distractors if other.others[0] == "c")
    assert set(first.others) == {"c", "d", "f", "g", "h"}
    assert {steps[number - 1].value for number in first.steps} == {"d", "f", "g", "h"}


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
    """With a head a row both take three: a layer is saved by one of the two, as in trained models."""
    problem = PROBLEMS[name]
    assert minimum_in_order(problem, head_a_row=True) == minimum_of_hop(problem, problem.hops, head_a_row=True) == 3
    assert minimum_in_order(problem) == min_layers(problem) == layers[-1]
    assert tuple(minimum_of_hop(problem, hop) for hop in range(1, problem.hops + 1)) == layers


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_circuit_of_minimal_depth_delivers_and_needs_every_path(name: str) -> None:
    whole = follow(name, *CIRCUITS[name])
    assert whole.delivered
    assert not whole.refused
    assert not whole.idle
    assert len(whole.growth) - 1 == min_layers(PROBLEMS[name])
    for left_out in CIRCUITS[name]:
        rest = follow(name, *(path for path in CIRCUITS[name] if path != left_out))
        assert not rest.delivered, left_out
        assert "and not" in rest.broken


def test_one_key_of_two_is_refused() -> None:
    """Attending to >3 knowing `0` alone shares something with it, and is refused all the same."""
    one_key = [path for path in CIRCUITS["functions"] if ">a" not in path.split() and "a>" not in path]
    flow = follow("functions", *one_key)
    assert flow.hops == (1,)
    assert [path.describe(PROBLEMS["functions"].roles) for path in flow.refused] == ["layer 3 head 1: i? -> >3"]
    assert flow.delivered_if_waived
    assert flow.broken.endswith("share nothing by then that tells the fact from its distractors")
