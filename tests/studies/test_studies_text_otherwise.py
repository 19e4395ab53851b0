"""Models of text, asked otherwise than in training: what is put to them, and that the rule can say no."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from hopscope.problem.text.questions import Question, questions
from studies.text_otherwise import (
    FORETOLD,
    SEED,
    Otherwise,
    Way,
    in_order,
    judge_otherwise,
    otherwise_table,
    put,
)

RIGHT: dict[Way, int] = {way: 500 if answered else 130 for way, answered in FORETOLD.items()}
"""Of 512, where all is as foretold."""


def asked(seed: int, **changed: int) -> list[Otherwise]:
    """A model of two hops that answers as foretold, but where it is said how many it has right; ways without blanks."""
    return [
        Otherwise("arm", seed, way, 3 if way == "one hop more" else 2, 512, changed.get(way.replace(" ", "_"), right))
        for way, right in RIGHT.items()
    ]


def verdicts(*models: list[Otherwise], answer: int = 6, missing: bool = False) -> dict[str, str]:
    found = judge_otherwise("arm", [one for model in models for one in model], lambda _: set(range(answer)), missing)
    return {one.asked.partition("hops, ")[2].partition(":")[0]: one.verdict for one in found}


def test_as_foretold() -> None:
    assert verdicts(*map(asked, range(6))) == dict.fromkeys(get_args(Way), "as asked")
    assert set(verdicts(*map(asked, range(6)), missing=True).values()) == {"inconclusive"}
    assert set(verdicts(*map(asked, range(5))).values()) == {"inconclusive"}


@pytest.mark.parametrize("way", get_args(Way))
def test_one_model_is_enough_against_it(way: Way) -> None:
    """Half of the way is 62.5%: 67% of 512 questions are above it for sure, 62.5% are neither above nor below. A
    quarter of it is 44%: who has 57%, where chance is 25%, answers too much to be said not to."""
    for right, answered in ((345, True), (200, False), (320, None), (290, None)):
        found = verdicts(*map(asked, range(5)), asked(5, **{way.replace(" ", "_"): right}))
        lost = answered is False or (right == 290 and FORETOLD[way])
        against = "not as asked" if answered or lost else "inconclusive"
        assert found.pop(way) == ("as asked" if answered is FORETOLD[way] else against)
        control = way == "shuffled, in order" and not answered  # of the five models left nothing is said
        unsaid = {"reversed", "shuffled, out of order"} if control else set()
        assert {name for name, verdict in found.items() if verdict != "as asked"} == unsaid


def test_the_table_is_of_those_that_answer() -> None:
    told = otherwise_table([one for seed in range(3) for one in asked(seed)], lambda arm, hops: {0, 1})
    assert "| arm | 2 | shuffled, in order | 2 | 98% (98% to 98%) | answered |" in told
    assert "| arm | 3 | one hop more | 2 | 25% (25% to 25%) | not answered |" in told


def test_who_is_lost_in_any_other_order_says_nothing_by_being_silent() -> None:
    lost = {way.replace(" ", "_"): 128 for way in get_args(Way)}
    found = verdicts(*(asked(seed, **lost) for seed in range(3)))
    assert found["reversed"] == found["shuffled, out of order"] == "not run"
    assert found["shuffled, in order"] == found["reversed, D times"] == "not as asked"


def test_models_that_never_learned_the_hops_do_not_count() -> None:
    contrary = {way.replace(" ", "_"): 512 - right for way, right in RIGHT.items()}
    models = asked(0), asked(1), asked(2, **contrary)
    assert set(verdicts(*models).values()) == {"not as asked", "inconclusive"}
    assert set(verdicts(*models, answer=2).values()) == {"inconclusive"}
    assert set(verdicts(*models, answer=0).values()) == {"not run"}


def lines(question: Question) -> list[str]:
    return question.prompt.splitlines()[:-1]


def stands(question: Question) -> list[int]:
    """Where the lines of the chain asked for stand, first look-up first, read off the text."""
    symbol, found, facts = question.prompt.partition("What is the value of ")[2][0], [], lines(question)
    while not symbol.isdigit():
        found.append(next(place for place, line in enumerate(facts) if line.startswith(f"{symbol} = ")))
        symbol = facts[found[-1]].partition(" = ")[2]
    return found


def test_what_is_put() -> None:
    ways = {(way, hops): those for way, hops, those in put(3)}
    assert [way for way, hops in ways if hops == 2] == [way for way in get_args(Way) if way != "one hop more"]
    assert [hops for way, hops in ways if way == "one hop more"] == [4]
    assert {len(those) for (way, _), those in ways.items() if "shuffled" not in way} == {512}
    for hops in (2, 3):
        ordered, others = ways["shuffled, in order", hops], ways["shuffled, out of order", hops]
        assert len(ordered) + len(others) == 512
        assert len(ordered) == pytest.approx(512 / (2 if hops == 2 else 6), rel=0.25)  # 1 / D!
        assert all(stands(one) == sorted(stands(one), reverse=True) for one in ordered)
        assert not any(stands(one) == sorted(stands(one), reverse=True) for one in others)
        for once, again in zip(ways["reversed", hops], ways["reversed, D times", hops], strict=True):
            assert stands(once) == sorted(stands(once))
            assert lines(again) == hops * lines(once)
    assert not any(map(in_order, ways["reversed", 2]))
    plain, named = questions("equations", 2, 512, SEED), ways["names in any order", 2]
    assert [one.answer for one in named] == [one.answer for one in plain]
    assert [one.lines for one in named] == [one.lines for one in plain]
    for one, other in zip(named, plain, strict=True):
        assert set("".join(lines(one))) == set("".join(lines(other)))  # no letter that training has not
        assert lines(one)[stands(one)[-1]][-1] == one.answer
    first = Counter(line[0] for one in named for line in lines(one)[:4])
    assert all(first[letter] == pytest.approx(256, rel=0.25) for letter in "abcdefgh")  # in training it is one of abcd
