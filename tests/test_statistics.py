"""Statistics, against values by hand, by counting every case, and from the literature."""

from __future__ import annotations

import pytest

from hopscope.statistics import clopper_pearson, fisher, holm


def test_shares():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(0, 10)[1] == pytest.approx(1 - 0.025**0.1)
    assert clopper_pearson(10, 10)[0] == pytest.approx(0.025**0.1)


def test_holm():
    """Worked by hand: 4, 3, 2 and 1 times the p-values from the least on, never falling."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_fishers_exact_test_of_the_lady_tasting_tea() -> None:
    """Three of four cups told right and one of four said to be so by mistake: 17 of 70 ways are as good."""
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert fisher(1, 4, 3, 4) == pytest.approx(69 / 70)  # one-sided
    assert fisher(6, 6, 0, 6) == pytest.approx(1 / 924)
    assert fisher(0, 0, 0, 6) == 1.0
