"""Statistics against published and independently computed values, and against their definitions."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.benchmark.points import at_least
from hopscope.errors import InputError
from hopscope.statistics import sign_test, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (125, 500, 0.2140, 0.2898),  # the design's 0.214..0.290 at chance
        (500, 500, 0.99238, 1.0),
        (0, 500, 0.0, 0.00762),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, Wilson's score
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_reference_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 400), st.data())
def test_wilson_solves_its_equation(trials: int, data: st.DataObject) -> None:
    """The ends are the rates p with (x/n - p)^2 = z^2 p (1 - p) / n."""
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    for p in (low, high):
        assert (successes / trials - p) ** 2 == pytest.approx(1.959963984540054**2 * p * (1 - p) / trials, abs=1e-12)


def test_above_chance_needs_142_of_500() -> None:
    assert at_least(142, 500, 0.25) <= 0.05 < at_least(141, 500, 0.25)


@given(st.integers(1, 60), st.data(), st.sampled_from([Fraction(1, 4), Fraction(1, 16), Fraction(17, 32)]))
def test_binomial_tail_is_exact(trials: int, data: st.DataObject, rate: Fraction) -> None:
    successes = data.draw(st.integers(0, trials))
    tail = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1))
    assert at_least(successes, trials, float(rate)) == pytest.approx(float(tail), rel=1e-10)


@pytest.mark.parametrize(
    ("ups", "downs", "p"), [(0, 0, 1.0), (5, 5, 1.0), (1, 9, 22 / 1024), (0, 6, 2 / 64), (12, 3, 0.03515625)]
)
def test_signs(ups: int, downs: int, p: float) -> None:
    assert sign_test([1] * ups + [-0.5] * downs + [0, 0]) == pytest.approx(p)
    assert sign_test([1] * downs + [-1] * ups) == pytest.approx(p)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5)])
def test_impossible_counts(successes: int, trials: int) -> None:
    with pytest.raises(InputError, match=r"successes must lie in 0\.\.trials"):
        wilson(successes, trials)
