"""Random factors on costs, which make random orders."""

from __future__ import annotations

import torch

from hopscope.circuits.search.config import JITTER


def jitter(count: int, generator: torch.Generator | None) -> list[float]:
    """Factors on costs: all 1, or log-normal if a generator perturbs the order."""
    if generator is None:
        return [1.0] * count
    factors: list[float] = torch.randn(count, generator=generator).mul(JITTER).exp().tolist()
    return factors
