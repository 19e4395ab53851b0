"""What tests ask of worker processes: a module that a fresh process can import wherever it was started."""

from __future__ import annotations

import torch


def flushes() -> bool:
    """Whether this process rounds the smallest numbers to zero."""
    return bool(torch.tensor([1e-40]) * 1 == 0)
