"""The order in which the hops of a circuit emerge (claim C13).

A path has emerged when its attention first crosses 0.5. Hop k has emerged when the paths that have, and no others,
carry x{k} to the query in the simulator of `theory`: of two ways to the same symbol the earlier one counts, and a head
that serves several hops counts for each. A later hop can emerge together with an earlier one, never before it (Lemma
2). A path counts from then on, also where its attention falls again, as by a spike of the loss: so the paths of a hop
have each been there at some time by then, and not surely together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor

from hopscope.emergence.crossing import Crossing
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import symbol_of
from hopscope.theory.delivery import deliver

_RESAMPLES = 400


@dataclass(frozen=True)
class Order:
    """When each hop has emerged.

    Attributes:
        emerged: for hops 1 ... D, the step at which the paths that have crossed 0.5 by then, each at some time, carry
            x{k} to the query; None if they never do.
        certainty: for each hop but the first, the share of resamples of the sequences in which it emerges after the
            one before.
    """

    emerged: tuple[float | None, ...]
    certainty: tuple[float, ...]

    @property
    def one_by_one(self) -> bool:
        """Whether every hop emerges, and later than the one before."""
        if any(step is None for step in self.emerged):
            return False
        return all(one < after for one, after in pairwise(step for step in self.emerged if step is not None))


def hop_of(path: AttentionPath, hops: int) -> int:
    """The hop that a path is drawn with: that of the furthest symbol its two positions hold, and at least 1."""
    return max(1, symbol_of(path.query, hops), symbol_of(path.key, hops))


def order(
    paths: Sequence[AttentionPath], found: Sequence[Crossing], resampled: Float[Tensor, "path resample"], hops: int
) -> Order:
    """The order of hops, from the crossings of paths and of their resamples."""
    delivery = _Delivery(paths, hops)
    emerged = delivery.emerged([math.nan if one.step is None else one.step for one in found])
    again = [delivery.emerged(steps) for steps in resampled[:, :_RESAMPLES].T.tolist()]
    certainty = [sum(steps[k] < steps[k + 1] for steps in again) / len(again) for k in range(hops - 1)]
    return Order(tuple(step if math.isfinite(step) else None for step in emerged), tuple(certainty))


class _Delivery:
    """How far sets of paths carry; each set is given to the simulator once."""

    def __init__(self, paths: Sequence[AttentionPath], hops: int) -> None:
        self._paths, self._hops = paths, hops
        self._reach: dict[frozenset[int], int] = {}

    def emerged(self, steps: Sequence[float]) -> list[float]:
        """For every hop, the step at which its paths have emerged, infinity for never; paths at NaN never emerge."""
        result = [math.inf] * self._hops
        there: frozenset[int] = frozenset()
        for number in sorted((n for n, step in enumerate(steps) if math.isfinite(step)), key=lambda n: steps[n]):
            there |= {number}
            for hop in range(self._reached(there)):
                result[hop] = min(result[hop], steps[number])
        return result

    def _reached(self, numbers: frozenset[int]) -> int:
        """The furthest hop that some of the paths deliver; all hops before it are delivered too."""
        if numbers not in self._reach:
            self._reach[numbers] = len(deliver(self._hops, [self._paths[number] for number in numbers]).hops)
        return self._reach[numbers]
