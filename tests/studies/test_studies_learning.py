"""The learning study: what counts as learned, what was never learned, and budgets that are longer."""

from __future__ import annotations

import pytest
from planted_studies import CONDITION, MIXED, THREE, condition, learns

from studies import learning
from studies.tools.conditions import Condition, Conditions

pytestmark = pytest.mark.slow

LONGER = "3-layers-twice-the-steps"


def verdict(one: Condition) -> str:
    return learning.judge(Conditions((one,)))[0].verdict


def test_the_wanted_share():
    """Nine in ten must learn x3 with three layers."""
    good, bad = learns(3, 9), learns(3, 1, 2)
    assert verdict(condition("a", THREE, good + bad, layers=3)) == "confirmed"
    assert verdict(condition("a", THREE, learns(3, 8) + bad + bad, layers=3)) == "refuted"
    assert verdict(condition("a", THREE, good[:2], layers=3, missing=8)) == "inconclusive"
    assert verdict(condition("a", THREE, [], layers=3)) == "not run"


def test_what_theory_rules_out_refutes():
    shallow = condition("2-layers", THREE, MIXED, layers=2)
    assert shallow.beyond_theory == 3
    assert verdict(shallow) == "refuted"
    assert verdict(condition("2-layers", THREE, learns(3, 4, 1), layers=2)) == "confirmed"
    assert CONDITION.beyond_theory == 0
