"""Conditional retrieval: chains as a special case, the published questions whole, and graphs that make no sense."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.graph import Graph, Step
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import convert
from hopscope.theory.conditional import (
    NAMED,
    ConditionalProblem,
    growth,
    load,
    minimum_layers,
)
from hopscope.theory.depth import minimum_causal, minimum_in_order, minimum_without_mask

GOLDEN = Path(__file__).parent.parent / "text" / "golden"
_LINES = {
    "functions": {
        "table": r"([a-d])\((\d)\) = (\d)",
        "alias": r"([e-h]) = ([a-d])",
        "argument": r"([i-l]) = (\d)",
    },
    "relatives": {
        "home": r"(\w+) lives in (\w+)\.",
        "relation": r"(\w+)s (mother|sister|father|brother) is (\w+)\.",
        "habit": r"(\w+)s live with their (\w+)s\.",
        "work": r"(\w+) works as an? (\w+)\.",
    },
}


@given(st.integers(1, 12), st.booleans(), st.booleans())
def test_a_chain_is_the_plain_case(hops: int, causal: bool, deepest_first: bool) -> None:
    steps = [Step((f"x{k - 1}",), f"x{k}") for k in range(1, hops + 1)]
    if deepest_first:
        steps.reverse()
    problem = ConditionalProblem(tuple(steps), ("x0",), f"x{hops}", causal)
    assert minimum_layers(problem) == (minimum_causal(hops) if causal else minimum_without_mask(hops))


@given(st.integers(1, 12).flatmap(lambda hops: st.permutations(range(1, hops + 1))))
def test_a_chain_in_any_order_has_the_depth_of_that_order(pairs: list[int]) -> None:
    facts = ConditionalProblem(tuple(Step((f"x{k - 1}",), f"x{k}") for k in pairs), ("x0",), f"x{len(pairs)}")
    chain = RetrievalProblem(len(pairs), order=",".join(map(str, pairs)))
    assert minimum_layers(facts) == minimum_in_order(chain)


@pytest.mark.parametrize(("name", "causal", "layers"), [
    ("functions", True, 3), ("functions", False, 3), ("relatives", True, 4), ("relatives", False, 3),
])  # fmt: skip
def test_the_papers_questions_among_all_their_lines(name: str, causal: bool, layers: int) -> None:
    """The whole published prompt, every line of it, needs as many layers as the graph with its few distractors."""
    known, target = (("f", "i"), "3") if name == "functions" else (("Eve",), "Brazil")
    assert minimum_layers(replace(NAMED[name], causal=causal)) == layers
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


def _learn(
    i: int, history: list[list[frozenset[object]]], kinds: list[tuple[str, int]], causal: bool
) -> frozenset[object]:
    now = history[-1]
    seen = range(i + 1) if causal else range(len(now))
    learned = now[i]
    for j in seen:
        alike = [k for k in seen if k != j and kinds[k] == kinds[j]]
        meetings = ((now[i] & then[j], then) for then in history)
        if any(shared and not any(shared <= then[k] for k in alike) for shared, then in meetings):
            learned |= now[j]
    return learned


def test_a_distractor_goes_as_far_as_the_fact_does_in_whatever_order_the_text_is() -> None:
    """What follows from its value is another symbol too; what does not is not."""
    steps = (Step(("b", "c"), "d"), Step(("a",), "b"), Step(("d", "e"), "f"), Step(("d",), "g"), Step(("f", "g"), "h"))
    for ordered in (steps, steps[::-1]):
        (first, *_) = (one for one in Graph(("a", "c", "e"), ordered).distractors if one.others[0] == "c")
        assert set(first.others) == {"c", "d", "f", "g", "h"}
        assert {ordered[number - 1].value for number in first.steps} == {"d", "f", "g", "h"}


def test_growth_in_words() -> None:
    assert growth(NAMED["functions"]) == (("i",), ("f", "i"), ("f", "i", "0", "a"), ("f", "i", "0", "a", "3"))
    assert growth(NAMED["relatives"])[3] == ("Eve", "lawyer", "mother")


def test_one_key_of_two_is_not_enough() -> None:
    """`g(y) = z` with y known at once and g three steps away: z must wait for g."""
    lookups = (Step(("c",), "g"), Step(("b",), "c"), Step(("a",), "b"))
    both = ConditionalProblem((Step(("g", "y"), "z"), *lookups), ("y", "a"), "z")
    either = ConditionalProblem((Step(("y",), "z"), *lookups), ("y", "a"), "z")
    assert minimum_layers(both) > minimum_layers(either) == 2
    known_at = next(t for t, held in enumerate(growth(both)) if "g" in held)
    assert minimum_layers(both) > known_at


def test_more_keys_are_never_easier() -> None:
    steps = (Step(("x",), "a"), Step(("y",), "b"))
    one = ConditionalProblem((Step(("a",), "z"), *steps), ("x", "y"), "z", causal=False)
    two = ConditionalProblem((Step(("a", "b"), "z"), *steps), ("x", "y"), "z", causal=False)
    assert minimum_layers(one) <= minimum_layers(two)


@pytest.mark.parametrize(
    ("steps", "known", "target", "sentence"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], ["q"], "b", "go round in a circle, (a|b|c) -> .*must lead away"),
        ([("a", "a")], ["q"], "a", "go round in a circle, a -> a"),
        ([("a", "b")], ["c"], "b", "'b' cannot be reached from c; a fact that leads to it is missing"),
        ([("a", "b")], [], "b", "'b' cannot be reached from nothing"),
        ([("a", "b")], ["a"], "z", "'z' cannot be reached from a"),
        ([("a", "b"), ("c", "b")], ["a", "c"], "b", "'b' is known or looked up twice"),
        ([("a", "b")], ["a", "b"], "b", "'b' is known or looked up twice"),
    ],
)
def test_graphs_that_make_no_sense(steps: list[tuple[str, str]], known: list[str], target: str, sentence: str) -> None:
    record = {"steps": [{"keys": [key], "value": value} for key, value in steps], "known": known, "target": target}
    with pytest.raises(InputError, match=sentence):
        convert(record, ConditionalProblem, "a graph of lookups")


def test_a_step_without_a_key() -> None:
    with pytest.raises(InputError, match="the fact with value 'b' has no key"):
        ConditionalProblem((Step((), "b"),), ("a",), "b")


@pytest.mark.parametrize(
    ("record", "sentence"),
    [([], "a graph of lookups: Expected object"), (3, "a graph of lookups: Expected object"), ({}, "field steps"),
     ({"steps": [], "known": "a", "target": "a"}, "known is 'a'"),
     ({"steps": [{"keys": "ab", "value": "c"}], "known": ["a"], "target": "c"}, r"steps\[0\].keys is 'ab'"),
     ({"steps": [{"keys": ["a"], "value": "b"}], "known": ["a"], "target": "b", "surplus": 1}, "has no field surplus"),
     ({"steps": [], "known": ["a"], "target": "a"}, "a conditional problem needs steps"),
     ({"steps": [], "known": ["a"], "target": 3}, "target is 3"),
     ({"steps": [], "known": ["a"], "target": "a", "causal": "yes"}, "causal is 'yes'")],
)  # fmt: skip
def test_records_of_another_shape(tmp_path: Path, record: object, sentence: str) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=sentence):
        load(str(tmp_path / "graph.json"))


def test_from_a_file(tmp_path: Path) -> None:
    record = {"steps": [{"keys": list(s.keys), "value": s.value} for s in NAMED["relatives"].steps], "known": ["Eve"]}
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({**record, "target": "Brazil"}))
    assert load(str(file)) == NAMED["relatives"]
    with pytest.raises(InputError, match="does not exist"):
        load(str(tmp_path / "nothing.json"))
