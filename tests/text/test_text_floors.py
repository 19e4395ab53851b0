"""Guessers: who leaves lines unread has exactly the stated floors, and who sees positions alone is at the guess."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import pytest
from blind_programs import BLIND, blind_scores
from text_reader import candidates, solve

from hopscope.paper.section_4 import FRESH, AnswerSpread
from hopscope.problem.text.conditional import Applications
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, questions


def completions(prompt: str, first: int, size: int, orders: list[tuple[int, ...]]) -> list[str]:
    """The prompt with the last words of `size` lines from line `first` on permuted in each of the orders."""
    rows = prompt.split("\n")
    cut = [re.fullmatch(r"(.*\W)?(\w+)(\.?)", row) for row in rows[first : first + size]]
    assert all(cut)
    texts = []
    for order in orders:
        block = [f"{a[1]}{cut[j][2]}{a[3]}" for a, j in zip(cut, order, strict=True)]  # type: ignore[index]
        texts.append("\n".join([*rows[:first], *block, *rows[first + size :]]))
    return texts


ALL_FOUR = list(permutations(range(4)))


@pytest.mark.parametrize("name", ["equations", "lives-with", "kingdoms"])
def test_chains_any_level_unread(name: str) -> None:
    for item in questions(name, count=5, seed=11):
        for level in range(item.hops):
            assert candidates(item.prompt, completions(item.prompt, 4 * level, 4, ALL_FOUR)) == Fraction(1, 4)
        assert item.floors == {"any one level unread": 0.25}
        assert item.shortcut == item.guess == 0.25


def test_functions_arguments_or_tables_unread() -> None:
    for item in questions("functions", count=5, seed=11):
        floors = item.floors
        assert candidates(item.prompt, completions(item.prompt, 20, 4, ALL_FOUR)) == floors["arguments unread"]
        relabelled = [
            re.sub(r"\) = (\d)", lambda found, to=to: f") = {to[int(found[1])]}", item.prompt) for to in ALL_FOUR
        ]
        assert candidates(item.prompt, relabelled) == floors["tables unread"] == 0.25


def tables_at(x: int, values: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for value in values:
        others = [v for v in range(4) if v != value]
        yield (*others[:x], value, *others[x:])


def test_functions_aliases_unread() -> None:
    """Over all 4^4 values that four independent tables can have at the argument."""
    random_function, commonest = Fraction(0), Fraction(0)
    for values in product(range(4), repeat=4):
        latent = Applications(tuple(range(24)), tuple(tables_at(2, values)), (2, 0, 3, 1), (2, 0, 1, 3), 1, 0)
        item = Question("functions", 3, 4, 0, 0, latent, Extensions())
        answers = Counter(solve(text) for text in completions(item.prompt, 16, 4, ALL_FOUR))
        random_function += Fraction(answers[item.answer], 24)
        commonest += Fraction(max(answers.values()), 24)
    floors = FORMULATIONS["functions"].floors(4, Extensions())
    assert random_function / 256 == floors["aliases unread, a random function"] == Fraction(7, 16)
    assert commonest / 256 == floors["aliases unread, the commonest value"] == Fraction(17, 32)
    assert item.shortcut == 17 / 32


def test_relatives() -> None:
    turns = [tuple((i + turn) % 16 for i in range(16)) for turn in range(16)]
    women = [0, 1, 4, 5, 8, 9, 12, 13]  # mothers and sisters are first and second in each family
    groups = women, [i + 2 for i in women]
    to = [{group[i]: group[(i + turn) % 8] for group in groups for i in range(8)} for turn in range(8)]
    families = [tuple(order[i] for i in range(16)) for order in to]
    for item in questions("relatives", count=5, seed=11):
        floors = item.floors
        assert candidates(item.prompt, completions(item.prompt, 36, 4, ALL_FOUR)) == floors["jobs unread"] == 1 / 4
        assert candidates(item.prompt, completions(item.prompt, 32, 4, ALL_FOUR)) == floors["rules unread"] == 1 / 4
        assert candidates(item.prompt, completions(item.prompt, 16, 16, families)) == floors["families unread"] == 1 / 8
        assert candidates(item.prompt, completions(item.prompt, 0, 16, turns)) == floors["homes unread"] == 1 / 16
        assert item.guess == 1 / 16
        assert item.shortcut == 1 / 4


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULATIONS)
def test_blind_solvers_are_at_the_guess(name: str) -> None:
    """Holm over the solvers of a formulation: none is above it at 1%."""
    scores = blind_scores(name)
    assert {score.solver for score in scores} == {*BLIND, "random answer", "remembered answer"}
    assert all(score.asked == 2000 and score.guess == (1 / 16 if name == "relatives" else 1 / 4) for score in scores)
    assert min(score.p for score in scores) > 0.01 / len(scores)
    assert all(score.low <= score.accuracy <= score.high for score in scores)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_answers_are_spread_evenly(name: str) -> None:
    asked = questions(name, count=2000, seed=FRESH)
    spread = AnswerSpread.of(asked)
    assert spread.p > 0.002
    assert spread.counts == tuple(Counter(q.answer for q in asked)[a] for a in asked[0].acceptable)
    skewed = [q for q in asked if q.answer != q.acceptable[0] or q.index % 2]
    assert AnswerSpread.of(skewed).p < 1e-3


def test_a_leaked_answer_is_found() -> None:
    """At one hop the value on the asked symbol's line is the answer."""
    score = {score.solver: score for score in blind_scores("equations", hops=1, count=300)}
    assert score["value on the same line"].accuracy == 1.0
    assert score["value on the same line"].p < 1e-100
