"""The settings by which a circuit is followed through its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hopscope.checks import Range, Seed, check_fields

_MOST = 100_000
"""The most sequences; more would not fit into memory."""


@dataclass(frozen=True)
class EmergenceConfig:
    """How a circuit is followed.

        >>> hs.EmergenceConfig().sequences
        32

    Args:
        sequences: how many sequences are measured, the same at every checkpoint; the paper's number is 32.
        seed: the seed of the sequences and the resampling.

    Raises:
        InputError: a value is out of range.
    """

    sequences: Annotated[int, Range(2, _MOST + 1)] = 32
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)
