"""What ends the plateau: differences are found, equality is shown, and what nobody can know is not said."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from planted_studies import condition

from hopscope.errors import InputError
from hopscope.paper.recipes import PLAIN
from hopscope.problem.retrieval import RetrievalProblem
from studies import plateau
from studies.figures.plateau import plateau as figure
from studies.tools.conditions import Condition, Conditions

pytestmark = pytest.mark.slow

PROBLEM = RetrievalProblem(hops=2)


def planted(name: str, first: float, gap: float, n: int = 10, never: int = 0, missing: int = 0) -> Condition:
    """Seeds that learn x1 about `first` and x2 `gap` later; the last `never` of them do not learn x2."""
    rng = np.random.default_rng(0)
    times = [int(first * factor) for factor in rng.uniform(0.9, 1.1, n)]
    learned = [[time, time + int(gap) if place < n - never else None] for place, time in enumerate(times)]
    return condition(name, PROBLEM, learned, missing=missing)


def verdicts(base: Condition, *changed: Condition) -> list[str]:
    return [judgement.verdict for judgement in plateau.judge(Conditions((base, *changed)))]


BASE = planted("unchanged", 500, 300)


def test_a_slower_start_moves_both_times_and_a_slower_end_one():
    assert verdicts(BASE, planted("slow", 1500, 300)) == ["confirmed", "confirmed"]
    assert verdicts(BASE, planted("late", 500, 2000)) == ["refuted", "confirmed"]


def test_changes_that_are_not_run_yet_count_in_the_correction():
    """Or a verdict could be taken back by running more."""
    slow, others = planted("slow", 600, 300), [condition(f"later {number}", PROBLEM, []) for number in range(30)]
    (alone, _), (among, _) = (plateau.compared(Conditions((BASE, slow, *more))) for more in ([], others))
    assert 0 < alone.p < 0.05
    assert among.p == pytest.approx(min(1.0, 31 * alone.p))
    assert "| later 7 | not run | - | - | - | - |" in plateau.table(Conditions((BASE, slow, *others)))


def test_the_same_is_shown_to_be_the_same():
    assert verdicts(BASE, planted("same", 500, 300)) == ["refuted", "refuted"]


def test_those_that_never_learn_count():
    """Medians of those that learned would say that nothing changed."""
    assert verdicts(BASE, planted("stuck", 500, 300, never=9))[1] == "confirmed"


def test_a_ratio_of_times_that_are_cut_off_is_a_bound():
    """Whose times are cut off says on which side the true ratio lies."""
    stuck, whole = planted("stuck", 500, 300, never=2), planted("whole", 700, 300)
    for base, other, word in ((BASE, stuck, "at least "), (stuck, whole, "at most "), (stuck, stuck, "about ")):
        said = plateau.judge(Conditions((base, other)))[1].observed
        assert said.startswith(word)
        assert f"| {word}" in plateau.table(Conditions((base, other)))
    assert plateau.judge(Conditions((BASE, whole)))[1].observed[0].isdigit()


def test_two_seeds_say_nothing_of_a_small_difference():
    pair = planted("unchanged", 500, 300, n=2)
    assert verdicts(pair, planted("a", 700, 300, n=2))[0] == "inconclusive"
    assert verdicts(BASE, planted("slow", 1500, 300, missing=1)) == ["inconclusive", "inconclusive"]
    assert verdicts(BASE, condition("none", PROBLEM, [])) == ["not run", "not run"]


def test_times_that_are_cut_off_are_not_equal_for_that():
    """All or nine of ten seeds learn nothing in either condition, so that the mean times are the budget's."""
    for first in ([None, None], [BASE.budget - 10, None]):
        learned = [first, *[[None, None]] * 9]
        both = condition("unchanged", PROBLEM, learned), condition("other", PROBLEM, learned)
        assert verdicts(*both)[0] == "inconclusive"
    (x1, last) = plateau.judge(Conditions((BASE, planted("one", 500, 300, never=1))))
    assert (x1.verdict, last.verdict) == ("refuted", "inconclusive")


def test_one_thing_is_changed_at_a_time():
    """And really changed: a change to what the recipe is already would be a control nobody meant."""
    base, *changed = plateau.PlateauStudy(PLAIN).conditions
    assert base.name == "unchanged"
    assert len({setup.name for setup in changed}) == len(changed) == 40
    for setup in changed:
        assert (setup.recipe == base.recipe) != (setup.problem == base.problem)
        assert setup.seeds == base.seeds


def marks(axes: Axes) -> list[str]:
    """Those that stand at some step."""
    found = [str(line.get_marker()) for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata())) == 1]
    return sorted(found, key="o>".index)


def test_the_table_and_the_figure_show_the_censored():
    found = Conditions((BASE, planted("stuck", 500, 300, never=9), condition("none", PROBLEM, [])))
    rows = plateau.table(found).splitlines()
    assert "| stuck | 1 of 10 (0% to 45%) |" in rows[3]
    assert "| never (" in rows[3]
    assert "*" in rows[3]
    axes = figure(found).axes[0]
    assert [text.get_text() for text in axes.texts] == ["10/10", "1/10", "all hops"]
    assert marks(axes) == ["o"] * 3 + [">"]
    half = marks(figure(Conditions((BASE, planted("half", 500, 300, never=4)))).axes[0])
    assert half == ["o"] * 4 + [">"]  # a median, and an interval without an end
    with pytest.raises(InputError, match="no seed"):
        figure(Conditions(()))
