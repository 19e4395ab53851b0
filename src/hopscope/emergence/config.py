"""The settings by which a circuit is followed through its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hopscope.checks import check_count, check_seed, make_plain
from hopscope.errors import InputError

PathAblation = Literal["uniform", "knock_out"]
"""How a path is taken away: its whole row is made uniform, as in the paper, or its key alone is masked."""

_MOST = 100_000
"""The most sequences that may be asked for; more would not fit into memory."""


@dataclass(frozen=True)
class EmergenceConfig:
    """How a circuit is followed.

        >>> hs.EmergenceConfig(ablation="knock_out").sequences
        32

    Args:
        sequences: how many sequences are measured, the same at every checkpoint; the paper's number is 32.
        seed: the seed of the sequences and the resampling.
        ablation: how a path is taken away: its row is made `uniform`, as in the paper, or its key masked (`knock_out`).

    Raises:
        InputError: a value is out of range.
    """

    sequences: int = 32
    seed: int = 0
    ablation: PathAblation = "uniform"

    def __post_init__(self) -> None:
        make_plain(self)
        check_count("sequences", self.sequences, most=_MOST)
        check_seed(self.seed, "seed")
        if self.sequences < 2:
            raise InputError(f"sequences must be at least 2, got {self.sequences}; the paper's number is 32")
        if self.ablation not in get_args(PathAblation):
            raise InputError(f"ablation must be one of {', '.join(get_args(PathAblation))}, got {self.ablation!r}")
