"""Settings for following a circuit through the checkpoints of its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hopscope.checks import Range, Seed, check_fields

_MOST = 100_000
"""The largest number of sequences; more would not fit into memory."""


@dataclass(frozen=True)
class EmergenceConfig:
    """Settings for following a circuit through training.

        >>> hs.EmergenceConfig().sequences
        32

    Args:
        sequences: number of sequences, which are the same at every checkpoint; the paper uses 32.
        seed: the seed of the sequences and the resampling.

    Raises:
        InputError: a value is out of range.
    """

    sequences: Annotated[int, Range(2, _MOST + 1)] = 32
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)
