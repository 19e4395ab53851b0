"""Further sequences, asked in growing numbers until it is clear on which side of a limit a program's loss lies."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Rows

FIRST, LARGEST = 256, 1024
"""Sequences that are asked first; then as many again as were asked so far, but no more than that at once."""


class _Part(NamedTuple):
    """Some of the sequences, and how many there are up to its end."""

    evaluator: Evaluator
    end: int


class Further:
    """Losses of programs on sequences of their own.

    Args:
        evaluator: the model; its own sequences are not asked.
        sequences: at most.
        doubt: standard errors by which a mean must clear a limit.
    """

    def __init__(self, evaluator: Evaluator, sequences: int, doubt: float) -> None:
        self._evaluator, self._most, self._doubt = evaluator, sequences, doubt
        self._program: Rows = {}
        self._losses: Float[Tensor, " sequence"] = torch.empty(0, dtype=torch.float64)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """The sequences in parts, each as large as all before it, until that would fill the memory."""
        everything, ends = self._evaluator.fresh(self._most, 0, "circuit search, in doubt"), [0]
        while ends[-1] < self._most:
            ends.append(min(self._most, ends[-1] + min(max(FIRST, ends[-1]), LARGEST)))
        return tuple(_Part(everything.on(everything.batch[start:end]), end) for start, end in pairwise(ends))

    @property
    def asked(self) -> int:
        """Sequences that the program last measured was measured on."""
        return len(self._losses)

    @property
    def all_asked(self) -> bool:
        """Whether these are all."""
        return self.asked == self._most

    @property
    def last(self) -> tuple[float, float]:
        """What the program that was last measured came to: mean loss and standard error."""
        return mean_and_error(self._losses)

    def measured(self, program: Rows, limit: float | None = None) -> tuple[float, float]:
        """Mean loss of a program and its standard error; what was measured of the last one is not measured again.

        Args:
            program: what is measured.
            limit: that the mean, with the doubt on top, is held against: sequences are asked until it is within, or can
                hardly come within on all of them. Without one all are asked.
        """
        if program != self._program:
            self._program, self._losses = program, torch.empty(0, dtype=torch.float64)
            self._evaluator.count(1)
        for part in self._parts:
            if self.asked >= part.end:
                continue
            if not self.asked or limit is None or not clear(self._losses, self._most, limit, self._doubt):
                losses = part.evaluator.errors([program])[0].double().mean(dim=1)
                self._losses = torch.cat([self._losses, losses])
        return self.last


def clear(losses: Float[Tensor, " sequence"], most: int, limit: float, doubt: float) -> bool:
    """Whether it is known on which side of a limit the mean comes out, with the doubt on top, where all are asked.

    Args:
        losses: of those that were asked.
        most: sequences in all.
        limit: for the mean and the doubt.
        doubt: standard errors.
    """
    mean, error = mean_and_error(losses)
    at_the_end = error * (len(losses) / most) ** 0.5
    still_open = (error**2 - at_the_end**2) ** 0.5
    within = mean + doubt * error <= limit
    beyond = mean + doubt * at_the_end > limit + doubt * still_open
    return within or beyond


def mean_and_error(losses: Float[Tensor, " sequence"]) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(losses.mean()), float(losses.std()) / len(losses) ** 0.5
