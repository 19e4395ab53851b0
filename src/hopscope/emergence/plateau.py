"""The plateau: how long a model in training knows the candidates but not which of them is right."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.training.metrics import ON_PLATEAU, Metrics, first_step

LEAST_PLATEAU = 0.28
"""The share of the run, from step 0, from which on a plateau counts as long: half of the paper's 450 of 800 epochs."""


@dataclass(frozen=True)
class Plateau:
    """The stretch of training at the loss of averaging the candidates, 1 - 1/N.

    Attributes:
        level: that loss.
        reached: the first logged step at which the validation loss is within 5% of it or below; None if never.
        left: the first logged step from which on, until hop 1 is learned, its partial loss is under 93% of the level
            (0.7 at N = 4); None while training is still on it. What comes after, a spike say, is no plateau.
        learned: for each hop asked for, the first logged step at which its partial loss is below 0.5 (at N = 4); None
            if never.
    """

    level: float
    reached: int | None
    left: int | None
    learned: tuple[int | None, ...]

    @property
    def length(self) -> int | None:
        """Steps from reaching it to leaving it; None if it was not left, 0 if it was passed without a stop."""
        if self.left is None:
            return None
        return max(0, self.left - (self.left if self.reached is None else self.reached))


def plateau(metrics: Metrics, chains: int, model: int = 0) -> Plateau:
    """The plateau of one model.

    Args:
        metrics: the metrics of its run.
        chains: N.
        model: the model's number within the run, from 0.
    """
    level = 1 - 1 / chains
    reached = first_step(metrics.steps, metrics.validation_loss[:, model] < 1.05 * level)
    learned = metrics.first_below()[model]
    left = None
    for step, loss in zip(reversed(metrics.steps.tolist()), reversed(metrics.partial_losses[:, model, 0]), strict=True):
        if learned[0] is not None and step > learned[0]:
            continue
        if not loss < ON_PLATEAU * level:  # nor does a model that diverged leave it
            break
        left = step
    return Plateau(level, reached, left, learned)
