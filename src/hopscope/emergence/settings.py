"""How a circuit is followed through its run, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hopscope.checks import check_count, check_seed
from hopscope.errors import InputError

Ablation = Literal["uniform", "knock_out"]
"""How a path is taken away: its whole row made uniform, as the paper does, or its key alone masked."""

_MOST = 100_000
"""Sequences; what memory holds."""


@dataclass(frozen=True)
class Following:
    """How a circuit is followed.

    Args:
        sequences: at every checkpoint the same; the paper's 32.
        seed: of the sequences and the resampling.
        ablation: how a path is taken away: its row made `uniform`, the paper's way, or its key masked.

    Raises:
        InputError: a value out of range.
    """

    sequences: int = 32
    seed: int = 0
    ablation: Ablation = "uniform"

    def __post_init__(self) -> None:
        check_count("sequences", self.sequences, most=_MOST)
        check_seed(self.seed, "seed")
        if self.sequences < 2:
            raise InputError(f"sequences must be at least 2, got {self.sequences}; the paper's number is 32")
        if self.ablation not in get_args(Ablation):
            raise InputError(f"ablation must be one of {', '.join(get_args(Ablation))}, got {self.ablation!r}")
