"""When a curve first crosses a level: linear interpolation between checkpoints, intervals by resampling sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

LEVEL = 0.5
"""The mean attention above which a path has emerged (Section 9.2)."""

_RESAMPLES = 2000


@dataclass(frozen=True)
class Crossing:
    """When a curve first crosses its level.

    Attributes:
        step: the interpolated step; None if it never crosses.
        low: lower end of a 95% interval; None if that end is never.
        high: upper end of that interval; None if at least 1 in 40 resamples never crosses.
        between: the measured steps on either side, or the first step twice if the curve is beyond the level from the
            start; None if it never crosses. Where checkpoints are missing this is wide.
    """

    step: float | None
    low: float | None
    high: float | None
    between: tuple[int, int] | None


def first_crossings(
    steps: Sequence[int], curves: Float[Tensor, "*curve step"], *, level: float = LEVEL, falling: bool = False
) -> Float[Tensor, "*curve"]:
    """The interpolated step at which each curve first is beyond `level`; NaN if it never is.

    Beyond is above, or below if `falling`. A curve that is beyond at the first step crosses there. A value that is not
    a number is not beyond.
    """
    at = torch.tensor(steps, dtype=torch.float64, device=curves.device)
    height = (level - curves.double()) if falling else (curves.double() - level)
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
    *,
    level: float = LEVEL,
    falling: bool = False,
    seed: int = 0,
) -> tuple[list[Crossing], Float[Tensor, "curve resample"]]:
    """Crossings of the means over sequences, with intervals; and the crossing of every resample, NaN for never.

    All curves share their resamples, so that the order in which they cross can be judged.
    """
    means = curves.double().mean(dim=-1)
    found = first_crossings(steps, means, level=level, falling=falling)
    drawn = resampled_means(curves, seed)
    resampled = first_crossings(steps, drawn.transpose(1, 2), level=level, falling=falling)
    edges = resampled.nan_to_num(nan=math.inf).sort(dim=-1).values
    places = [round(share * (edges.shape[-1] - 1)) for share in (0.025, 0.975)]
    result = []
    for number, step in enumerate(found.tolist()):
        low, high = (_or_none(edges[number, place].item()) for place in places)
        result.append(Crossing(_or_none(step), low, high, _between(steps, step)))
    return result, resampled


def resampled_means(values: Float[Tensor, "*curve sequence"], seed: int) -> Float[Tensor, "*curve resample"]:
    """Means over sequences drawn with replacement, with the same draws for all curves."""
    sequences = values.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(sequences, (_RESAMPLES, sequences), generator=generator)
    counts = torch.zeros(_RESAMPLES, sequences, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    means: Tensor = values.double().cpu() @ counts.T / sequences
    return means


def spread(values: Sequence[int | float | None], seed: int = 0) -> tuple[float | None, float | None, float | None]:
    """Median over models of different seeds, and the ends of a 95% interval by resampling the models.

    None stands for never, a step beyond all others. With few seeds the interval is coarse: it cannot be wider than from
    the least value to the greatest.
    """
    steps = torch.tensor([math.inf if value is None else value for value in values], dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    drawn = steps[torch.randint(len(steps), (_RESAMPLES, len(steps)), generator=generator)]
    medians = _medians(drawn).sort().values
    low, high = (medians[round(share * (_RESAMPLES - 1))].item() for share in (0.025, 0.975))
    return _or_none(_medians(steps).item()), _or_none(low), _or_none(high)


def _medians(values: Float[Tensor, "*set value"]) -> Float[Tensor, "*set"]:
    """The middle value or the mean of the middle two, infinity if one of these is. (torch's own takes the lower.)"""
    ordered, count = values.sort(dim=-1).values, values.shape[-1]
    return (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2


def _or_none(step: float) -> float | None:
    return step if math.isfinite(step) else None


def _between(steps: Sequence[int], step: float) -> tuple[int, int] | None:
    if not math.isfinite(step):
        return None
    after = next(known for known in steps if known >= step)
    before = max((known for known in steps if known < step), default=after)
    return before, after
