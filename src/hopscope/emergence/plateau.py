"""The plateau: how long training knows the candidates and not which of them is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.emergence.crossing import LEVEL


@dataclass(frozen=True)
class Plateau:
    """The stretch of training at the loss of averaging the candidates, 1 - 1/N.

    Attributes:
        level: that loss.
        reached: the first logged step at which the validation loss is within 5% of it or below; None if never.
        left: the first logged step from which on, until hop 1 is learned, its partial loss is under 93% of the level
            (0.7 at N = 4); None while training is still on it. What comes after, a spike say, is no plateau.
        learned: for each hop asked for, the first logged step at which its partial loss is below 0.5; None if never.
    """

    level: float
    reached: int | None
    left: int | None
    learned: tuple[int | None, ...]

    @property
    def length(self) -> int | None:
        """Steps from reaching it to leaving it; None if it was not left. 0 where it was passed without a stop."""
        if self.left is None:
            return None
        return max(0, self.left - (self.left if self.reached is None else self.reached))


def plateau(rows: Sequence[dict[str, Any]], chains: int, model: int = 0) -> Plateau:
    """The plateau of one model, from the rows of its run's metrics.

    Args:
        rows: of `RunFolder.metrics`.
        chains: N.
        model: from 0.
    """
    level = 1 - 1 / chains
    mine = [row for row in rows if row["model"] == model]
    hops = len(mine[0]["partial_losses"]) if mine else 0
    reached = next((row["step"] for row in mine if _below(row["validation_loss"], 1.05 * level)), None)
    learned = tuple(
        next((row["step"] for row in mine if _below(row["partial_losses"][hop], LEVEL)), None) for hop in range(hops)
    )
    left = None
    for row in reversed(mine):
        if learned[0] is not None and row["step"] > learned[0]:
            continue
        if not _below(row["partial_losses"][0], 0.93 * level):
            break
        left = row["step"]
    return Plateau(level, reached, left, learned)


def _below(loss: float | None, bar: float) -> bool:
    return loss is not None and loss < bar
