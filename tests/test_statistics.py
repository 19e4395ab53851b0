"""Statistics, against values by hand, by counting every case, and from the literature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from hopscope.statistics import clopper_pearson, fisher, holm, intervals


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


def test_bootstrap_intervals_hold_what_they_say() -> None:
    """95% intervals of 200 samples hold the true mean about 95 times in 100, and shrink with the square root."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(200, 100, generator=generator).exp()
    truth = float(torch.tensor(0.5).exp())
    found = intervals(samples, seed=3)
    hold = sum(low <= truth <= high for low, high in found)
    assert 170 <= hold <= 198
    wide = sum(high - low for low, high in found) / 200
    narrow = sum(h - low for low, h in intervals(torch.randn(200, 400, generator=generator).exp(), seed=3)) / 200
    assert 1.6 < wide / narrow < 2.5
    assert intervals(samples, seed=3) == found
    constant = intervals(torch.full((1, 10), 0.25), seed=0)
    assert constant == [(pytest.approx(0.25), pytest.approx(0.25))]


@pytest.mark.parametrize("sequences", [2, 7, 48, 256, 2048])
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_bootstrap_intervals_are_scipys(sequences: int, level: float) -> None:
    values = torch.randn(3, sequences, generator=torch.Generator().manual_seed(sequences)).exp().double()
    theirs = bootstrap(
        (values.numpy(),), np.mean, axis=-1, confidence_level=level, n_resamples=2000, batch=100,
        method="percentile", vectorized=True, rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    wanted = np.stack([theirs.low, theirs.high], axis=1)
    np.testing.assert_allclose(intervals(values, 5, level), wanted, rtol=1e-12)
    np.testing.assert_allclose(intervals(values[1:2], 5, level), wanted[1:2], rtol=1e-12)  # alone as among others
