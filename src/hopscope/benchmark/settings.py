"""The settings that decide a benchmark's numbers: how questions are drawn, asked and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from hopscope.checks import Count, Range, Seed, check_count, check_fields, check_items, check_type
from hopscope.errors import InputError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, formulation, questions

Mode = Literal["sample", "exact"]

EQUATION_HOPS = (1, 2, 3, 4, 5, 6)  # all D for which the paper's format has letters


class Cell(NamedTuple):
    """A formulation at a number of hops: a point of Figure 2."""

    formulation: str
    hops: int


@dataclass(frozen=True)
class BenchmarkSettings:
    """How questions are drawn, asked and judged.

        >>> hs.BenchmarkSettings(mode="exact", attempts=5).max_tokens
        32

    Args:
        seed: the seed of the questions.
        rule: the answer rule, `exact` or `lenient`.
        mode: `sample` asks until an answer is acceptable, as in the paper; `exact` computes the limit of unlimited
            attempts from log-probabilities.
        exact_tree: in exact mode, follow replies until the probability left is a ten-thousandth of the probability
            found, instead of a fiftieth or 16 branches per question.
        temperature: the temperature of sampling; 1 gives the model's own distribution.
        attempts: number of replies after which a question counts as never accepted.
        max_tokens: number of tokens at which a reply is cut off; None for 32, or 1,024 with `think`.
        reasoning_effort: passed on to providers that support it; `none` if reasoning can be switched off.
        extensions: departures from the paper's prompts.
    """

    seed: Seed = 0
    rule: Literal["exact", "lenient"] = "exact"
    mode: Mode = "sample"
    exact_tree: bool = False
    temperature: Annotated[float, Range(0, 100)] = 1.0
    attempts: Count = 20
    max_tokens: Count | None = None
    reasoning_effort: str | None = None
    extensions: Extensions = field(default_factory=Extensions)

    def __post_init__(self) -> None:
        check_type("extensions", self.extensions, Extensions, "Extensions, as Extensions(shots=1)")
        if self.max_tokens is None:
            object.__setattr__(self, "max_tokens", 1024 if self.extensions.think else 32)
        check_fields(self)
        check_type("reasoning_effort", self.reasoning_effort, str | None, "a word such as low, or None")
        if self.temperature == 0 and (self.mode == "exact" or self.attempts > 1):
            raise InputError("temperature must be above 0 in exact mode or with several attempts, got 0; pass 1")
        if self.mode == "exact" and self.extensions.think:
            raise InputError("exact mode weighs whole answers, so it cannot let a model think first; drop one of them")

    @property
    def longest(self) -> int:
        """The number of tokens at which a reply is cut off."""
        assert self.max_tokens is not None
        return self.max_tokens

    def questions(self, cell: Cell, count: int) -> list[Question]:
        """Return the questions of a cell, which are the same for every model."""
        return questions(cell.formulation, cell.hops, count, self.seed, extensions=self.extensions)


def cells(formulations: Sequence[str] = (), hops: Sequence[int] | None = None) -> list[Cell]:
    """Return the points to measure: equations at each D, 1 to 6 by default, the other formulations at the paper's D."""
    formulations = check_items("formulations", formulations, "names")
    equation_hops = EQUATION_HOPS if hops is None else check_items("hops", hops, "whole numbers")
    for depth in equation_hops:
        check_count("hops", depth)
    forms = [formulation(name) for name in formulations] or list(FORMULATIONS.values())
    depths = {form.name: equation_hops if form.name == "equations" else (form.paper_hops,) for form in forms}
    if hops and "equations" not in depths:
        raise InputError(f"hops can be set only for equations, got hops for {', '.join(depths)}; leave hops out")
    return [Cell(name, hops) for name, those in depths.items() for hops in dict.fromkeys(those)]


HUB = "hub/"
"""The prefix of a hub's name `org/model`; that model runs here, from the hub's cache or after a download."""


def runs_here(name: str) -> bool:
    """Whether a model of this name runs on this machine, and not behind a provider."""
    return Path(name).exists() or name.startswith(HUB)
