"""Whether a program holds the bar on some sequences, with the doubt that their number leaves."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.search.budget import CONFIRM_DOUBT, HOPELESS, ROOM, SCAN_DOUBT, Budget


class Gauge:
    """Losses on one batch against the bar.

    Args:
        evaluator: the model and the sequences that decide.
        rough: fewer sequences. They say in which order changes are tried and which are hopeless; whether one is made is
            never left to them.
        bar: the loss that no circuit exceeds.
        doubt: standard errors added to every loss.
    """

    def __init__(self, evaluator: Evaluator, rough: Evaluator, bar: float, doubt: float) -> None:
        self.evaluator, self.rough, self._bar, self._doubt = evaluator, rough, bar, doubt
        self._full = self.scores([{}])[0]

    @classmethod
    def scanning(cls, evaluator: Evaluator, budget: Budget) -> Gauge:
        """On the first sequences: most decisions."""
        rough = evaluator.part(max(8, budget.sequences // 4))
        return cls(evaluator.part(budget.sequences), rough, budget.bar, SCAN_DOUBT)

    @classmethod
    def confirming(cls, evaluator: Evaluator, budget: Budget) -> Gauge:
        """On all of them: the last decisions."""
        return cls(evaluator, evaluator.part(budget.sequences), budget.bar, CONFIRM_DOUBT)

    def limit(self, share: float = 1.0) -> float:
        """The score that uses this share of what may be spent."""
        return self._full + share * ROOM * (self._bar - self._full)

    def scores(self, programs: Sequence[Rows]) -> list[float]:
        """Mean squared error under each program, with the doubt on top."""
        if not programs:
            return []
        mean, error = _by_sequences(self.evaluator, programs)
        found: list[float] = (mean + self._doubt * error).tolist()
        return found

    def passes(self, program: Rows) -> bool:
        """Whether a program is within the limit."""
        return self.scores([program])[0] <= self.limit()

    def hopeful(self, programs: Sequence[Rows], evaluator: Evaluator | None = None) -> list[int]:
        """Numbers of the programs that may be within the limit, as few sequences see it."""
        if not programs:
            return []
        mean, error = _by_sequences(evaluator or self.rough, programs)
        return [number for number, low in enumerate((mean - HOPELESS * error).tolist()) if low <= self.limit()]


def _by_sequences(
    evaluator: Evaluator, programs: Sequence[Rows]
) -> tuple[Float[Tensor, " program"], Float[Tensor, " program"]]:
    """Mean loss and its standard error."""
    errors = evaluator.errors(programs).double().mean(dim=2)
    return errors.mean(dim=1), errors.std(dim=1) / errors.shape[1] ** 0.5
