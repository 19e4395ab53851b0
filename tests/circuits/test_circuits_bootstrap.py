"""Intervals by the bootstrap hold what they say."""

from __future__ import annotations

import pytest
import torch

from hopscope.circuits.bootstrap import intervals


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
