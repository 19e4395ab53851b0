"""Further sequences, measured in growing numbers until it is clear on which side of a limit a program's loss lies."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Draft

FIRST, LARGEST = 256, 1024
"""How many sequences are measured first; then as many again as so far, but at most `LARGEST` at once."""


class _Part(NamedTuple):
    """The model on some of the sequences, and how many sequences there are up to the end of this part."""

    evaluator: Evaluator
    end: int


class Further:
    """Losses of programs on further sequences.

    Args:
        evaluator: the model; its own sequences are not used.
        sequences: how many further sequences there are.
        doubt: how many standard errors are added to a mean before it is compared with a limit.
    """

    def __init__(self, evaluator: Evaluator, sequences: int, doubt: float) -> None:
        self._evaluator, self._most, self._doubt = evaluator, sequences, doubt
        self._program: Draft = {}
        self._losses: Float[Tensor, " sequence"] = torch.empty(0, dtype=torch.float64)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """The sequences in parts, each as large as all before it, up to a size that would fill the memory."""
        everything, ends = self._evaluator.fresh(self._most, 0, "circuit search, in doubt"), [0]
        while ends[-1] < self._most:
            ends.append(min(self._most, ends[-1] + min(max(FIRST, ends[-1]), LARGEST)))
        return tuple(_Part(everything.on(everything.batch[start:end]), end) for start, end in pairwise(ends))

    @property
    def asked(self) -> int:
        """How many sequences the last program was measured on."""
        return len(self._losses)

    @property
    def all_asked(self) -> bool:
        """Whether these are all the sequences."""
        return self.asked == self._most

    @property
    def last(self) -> tuple[float, float]:
        """The mean loss, with its standard error, of the program that was last measured."""
        return mean_and_error(self._losses)

    def measured(self, program: Draft, limit: float | None = None) -> tuple[float, float]:
        """Mean loss of a program and its standard error; what was measured of the last one is not measured again.

        Args:
            program: the program that is measured.
            limit: what the mean, with the doubt on top, is compared with: sequences are measured until it is within the
                limit, or can hardly be within it on all of them. Without a limit all are measured.
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
    """Whether it is clear on which side of a limit the mean, with the doubt on top, would be on all sequences.

    Args:
        losses: the losses on the sequences measured so far.
        most: how many sequences there are in all.
        limit: what the mean with the doubt on top is compared with.
        doubt: how many standard errors are added.
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
