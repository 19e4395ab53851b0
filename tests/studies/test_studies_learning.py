"""The learning study: what counts as learned, what was never learned, and budgets that are longer."""

from __future__ import annotations

import pytest
from planted_arms import ARM, MIXED, THREE, arm, learns

from studies import learning
from studies.tools.arms import ArmLearned, Arms

pytestmark = pytest.mark.slow

LONGER = "3-layers-twice-the-steps"


def verdict(one: ArmLearned) -> str:
    return learning.judge(Arms((one,)))[0].verdict


def test_as_asked():
    """Nine in ten must learn x3 with three layers."""
    good, bad = learns(3, 9), learns(3, 1, 2)
    assert verdict(arm("a", THREE, good + bad, layers=3)) == "as asked"
    assert verdict(arm("a", THREE, learns(3, 8) + bad + bad, layers=3)) == "not as asked"
    assert verdict(arm("a", THREE, good[:2], layers=3, missing=8)) == "inconclusive"
    assert verdict(arm("a", THREE, [], layers=3)) == "not run"


def test_what_can_no_longer_come_true_is_said_before_all_seeds_are_finished():
    assert verdict(arm("a", THREE, learns(3, 2, 2), layers=3, missing=8)) == "not as asked"


def test_what_theory_rules_out_is_never_as_asked():
    shallow = arm("2-layers", THREE, MIXED, layers=2)
    assert shallow.beyond_theory == 3
    assert verdict(shallow) == "not as asked"
    assert verdict(arm("2-layers", THREE, learns(3, 4, 1), layers=2)) == "as asked"
    assert ARM.beyond_theory == 0
