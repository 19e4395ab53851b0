"""When what emerges: curves that cross a level, the plateau before, and the order in which hops are delivered.

A crossing is interpolated linearly between checkpoints; its interval comes from resampling sequences. A hop has emerged
once the paths that have crossed 0.5 by then, even if they fall again, carry its symbol to the query (Lemma 2).
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
from hopscope.theory.path_flow import deliver
from hopscope.training.metrics import ON_PLATEAU, Metrics, first_step

LEVEL = 0.5
"""The mean attention above which a path has emerged (Section 9.2)."""

_RESAMPLES = 2000


@dataclass(frozen=True)
class Crossing:
    """When a curve first is above its level.

    Attributes:
        step: the interpolated step; None if it never crosses.
        low: lower end of a 95% interval; None if that end is never.
        high: upper end of that interval; None if at least 1 in 40 resamples never crosses.
        between: the measured steps on either side, or the first step twice if the curve is above the level from the
            start; None if it never crosses. Where checkpoints are missing this is wide.
    """

    step: float | None
    low: float | None
    high: float | None
    between: tuple[int, int] | None


def first_crossings(
    steps: Sequence[int], curves: Float[Tensor, "*curve step"], level: float = LEVEL
) -> Float[Tensor, "*curve"]:
    """The interpolated step, or the very first, at which each curve first is above `level`; NaN if it never is."""
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
    steps: Sequence[int],
    curves: Float[Tensor, "curve step sequence"],
    level: float = LEVEL,
    seed: int = 0,
) -> list[Crossing]:
    """Crossings of the means over sequences, with intervals; all curves share their resamples."""
    found = first_crossings(steps, curves.double().mean(dim=-1), level)
    resampled = first_crossings(steps, resampled_means(curves, seed).transpose(1, 2), level)
    edges = resampled.nan_to_num(nan=math.inf).sort(dim=-1).values
    ends = edges[:, [round(share * (edges.shape[-1] - 1)) for share in (0.025, 0.975)]]
    return [
        Crossing(finite_or_none(step), finite_or_none(low), finite_or_none(high), _between(steps, step))
        for step, (low, high) in zip(found.tolist(), ends.tolist(), strict=True)
    ]


def resampled_means(values: Float[Tensor, "*curve sequence"], seed: int) -> Float[Tensor, "*curve resample"]:
    """Means over sequences drawn with replacement, with the same draws for all curves."""
    sequences = values.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(sequences, (_RESAMPLES, sequences), generator=generator)
    counts = torch.zeros(_RESAMPLES, sequences, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    means: Tensor = values.double().cpu() @ counts.T / sequences
    return means


def _between(steps: Sequence[int], step: float) -> tuple[int, int] | None:
    if not math.isfinite(step):
        return None
    after = next(known for known in steps if known >= step)
    return max((known for known in steps if known < step), default=after), after


LEAST_PLATEAU = 0.28
"""The share of the run, from step 0, from which on a plateau counts as long: half of the paper's 450 of 800 epochs."""


@dataclass(frozen=True)
class Plateau:
    """The stretch of training at the loss of averaging the candidates, 1 - 1/N.

    Attributes:
        level: that loss.
        reached: the first logged step at which the validation loss is within 5% of it or below; None if never.
        left: the first logged step from which on, until hop 1 is learned, its partial loss is under 93% of the level
            (0.7 at N = 4); None while training is still on it.
        learned: for each target hop, the first logged step at which its partial loss is below 0.5 (at N = 4); None
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
    """The plateau of one model, by its number within the run from 0, from the metrics of its run on N chains."""
    level = 1 - 1 / chains
    reached = first_step(metrics.steps, metrics.validation_loss[:, model] < 1.05 * level)
    learned = metrics.first_below()[model]
    before = metrics if learned[0] is None else metrics.after(-1, learned[0])
    left = None
    for step, loss in zip(before.steps.tolist(), before.partial_losses[:, model, 0], strict=True):
        if not loss < ON_PLATEAU * level:  # nor does a model that diverged leave it
            left = None
        elif left is None:
            left = step
    return Plateau(level, reached, left, learned)


@dataclass(frozen=True)
class Order:
    """When each hop has emerged.

    Attributes:
        emerged: for hops 1 ... D, the step at which the paths that have crossed 0.5 by then, each at some time, carry
            x{k} to the query; None if they never do.
    """

    emerged: tuple[float | None, ...]

    @property
    def one_by_one(self) -> bool:
        """Whether every hop emerges, and later than the one before."""
        steps = [math.nan if step is None else step for step in self.emerged]
        return steps == sorted(set(steps)) and not any(map(math.isnan, steps))


def hop_of(path: AttentionPath, hops: int) -> int:
    """The hop that a path is drawn with: that of the furthest symbol its two positions hold, and at least 1."""
    return max(1, symbol_of(path.query, hops), symbol_of(path.key, hops))


def order(paths: Sequence[AttentionPath], found: Sequence[Crossing], hops: int) -> Order:
    """The order of hops, from the crossings of paths."""
    result, crossed = [math.inf] * hops, list[AttentionPath]()
    steps = [(crossing.step, number) for number, crossing in enumerate(found) if crossing.step is not None]
    for step, number in sorted(steps):
        crossed.append(paths[number])
        for hop in range(len(deliver(hops, crossed).hops)):
            result[hop] = min(result[hop], step)
    return Order(tuple(map(finite_or_none, result)))
