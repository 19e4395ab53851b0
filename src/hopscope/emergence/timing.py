"""The times of emergence: when curves cross a level, when the plateau begins and ends, and when each hop emerges.

A crossing is interpolated linearly between checkpoints; its interval comes from resampling sequences. A hop emerges at
the step at which the paths that have crossed 0.5, even if they fall again, carry its symbol to the query (Lemma 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.checks import finite_or_none
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import symbol_of
from hopscope.statistics import resampled
from hopscope.theory.path_flow import deliver
from hopscope.training.metrics import ON_PLATEAU, Metrics, first_step

LEVEL = 0.5
"""The mean attention above which a path has emerged (Section 9.2)."""


@dataclass(frozen=True)
class Crossing:
    """The first time that a curve is above its level.

    Attributes:
        step: the interpolated step; None if the curve never crosses the level.
        low: lower end of the 95% interval of `step`; None if at most 1 in 40 resamples crosses the level.
        high: upper end of the 95% interval; None if more than 1 in 40 resamples never cross the level.
        between: the measured steps before and after the crossing, or the first step twice if the curve starts above
            the level; None if it never crosses. Where checkpoints are missing, the two steps are far apart.
    """

    step: float | None
    low: float | None
    high: float | None
    between: tuple[int, int] | None


def first_crossings(
    steps: Sequence[int], curves: Float[Tensor, "*curve step"], level: float = LEVEL
) -> Float[Tensor, "*curve"]:
    """Return the interpolated step at which each curve is first above `level`; NaN for a curve that never is."""
    at = torch.tensor(steps, dtype=torch.float64, device=curves.device)
    height = curves.double() - level
    beyond = height > 0
    after = beyond.to(torch.uint8).argmax(dim=-1, keepdim=True)
    before = (after - 1).clamp(min=0)
    low, high = height.gather(-1, before), height.gather(-1, after)
    share = torch.where((after == 0) | low.isnan(), 1.0, -low / (high - low))
    found = at[before] + share * (at[after] - at[before])
    return torch.where(beyond.any(dim=-1), found.squeeze(-1), math.nan)


def crossings(
    steps: Sequence[int], curves: Float[Tensor, "curve step sequence"], level: float = LEVEL, seed: int = 0
) -> list[Crossing]:
    """Return the crossing of each curve's mean over sequences, with its interval; all curves use the same resamples."""
    found = first_crossings(steps, curves.double().mean(dim=-1), level)
    again = first_crossings(steps, torch.from_numpy(resampled(curves, seed)).transpose(1, 2), level)
    edges = again.nan_to_num(nan=math.inf).sort(dim=-1).values
    ends = edges[:, [round(share * (edges.shape[-1] - 1)) for share in (0.025, 0.975)]]
    return [
        Crossing(finite_or_none(step), finite_or_none(low), finite_or_none(high), _between(steps, step))
        for step, (low, high) in zip(found.tolist(), ends.tolist(), strict=True)
    ]


def _between(steps: Sequence[int], step: float) -> tuple[int, int] | None:
    if not math.isfinite(step):
        return None
    after = next(known for known in steps if known >= step)
    return max((known for known in steps if known < step), default=after), after


LEAST_PLATEAU = 0.28
"""The earliest end of a long plateau, as a share of the run: half of the paper's 450 of 800 epochs."""


@dataclass(frozen=True)
class Plateau:
    """The part of training during which the model averages the N candidates, with a loss of 1 - 1/N.

    Attributes:
        level: the loss of averaging the candidates, 1 - 1/N.
        reached: the first logged step at which the validation loss is below 105% of the level; None if never.
        left: the first logged step after which the partial loss of the first hop asked for stays below 93% of the
            level (0.7 at N = 4) until that hop is learned; None while training is still on the plateau.
        learned: for each target hop, the first logged step at which its partial loss is below 0.5 (at N = 4), or None.
    """

    level: float
    reached: int | None
    left: int | None
    learned: tuple[int | None, ...]


def plateau(metrics: Metrics, chains: int, model: int = 0) -> Plateau:
    """Return the plateau of model `model` (from 0) of a run on N = `chains` chains, from the run's metrics."""
    level = 1 - 1 / chains
    reached = first_step(metrics.steps, metrics.validation_loss[:, model] < 1.05 * level)
    learned = metrics.first_below()[model]
    before = metrics if learned[0] is None else metrics.after(-1, learned[0])
    flat = ~(before.partial_losses[:, model, 0] < ON_PLATEAU * level)  # also if it is NaN, since the model diverged
    left = first_step(before.steps, before.steps > max(before.steps[flat], default=-1))
    return Plateau(level, reached, left, learned)


@dataclass(frozen=True)
class Order:
    """The time at which each hop emerges.

    Attributes:
        emerged: for hops k = 1 ... D, the first step at which the paths that have crossed 0.5 carry x{k} to the query;
            None if they never do.
    """

    emerged: tuple[float | None, ...]

    @property
    def one_by_one(self) -> bool:
        """Whether every hop emerges, each one later than the hop before it."""
        steps = [math.nan if step is None else step for step in self.emerged]
        return steps == sorted(set(steps)) and not any(map(math.isnan, steps))


def hop_of(path: AttentionPath, hops: int) -> int:
    """Return the hop in whose colour a path is drawn: the larger symbol number of its two positions, at least 1."""
    return max(1, symbol_of(path.query, hops), symbol_of(path.key, hops))


def order(paths: Sequence[AttentionPath], found: Sequence[Crossing], hops: int) -> Order:
    """Return the times at which hops emerge, from the crossings of paths."""
    result, crossed = [math.inf] * hops, list[AttentionPath]()
    steps = [(crossing.step, number) for number, crossing in enumerate(found) if crossing.step is not None]
    for step, number in sorted(steps):
        crossed.append(paths[number])
        for hop in range(len(deliver(hops, crossed).hops)):
            result[hop] = min(result[hop], step)
    return Order(tuple(map(finite_or_none, result)))
