"""What is asked and how: the settings that decide a benchmark's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from hopscope.checks import check_choice, check_count, check_flag, check_items, check_seed, make_plain
from hopscope.errors import InputError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, formulation, questions

Mode = Literal["sample", "exact"]

EQUATION_HOPS = (1, 2, 3, 4, 5, 6)
"""All D for which the paper's format has letters."""


class Cell(NamedTuple):
    """A formulation at a number of hops: a point of Figure 2."""

    formulation: str
    hops: int


@dataclass(frozen=True)
class BenchmarkSettings:
    """How questions are drawn, put and judged.

        >>> hs.BenchmarkSettings(mode="exact", attempts=5).max_tokens
        32

    Args:
        seed: the seed of the questions.
        rule: the answer rule, `exact` or `lenient`.
        mode: `sample`, asking until an answer is acceptable (the paper); `exact`, the limit of that, from
            log-probabilities.
        exact_tree: exact mode: follow replies until what is left is a ten-thousandth of what was found, where
            usually it is a fiftieth or 16 branches a question.
        temperature: the temperature of sampling; 1 gives the model's own distribution.
        attempts: replies after which a question counts as never accepted.
        max_tokens: the longest reply, in tokens; None stands for 32, with `think` 1,024, and that number takes its
            place. A reply cut off there is no answer.
        reasoning_effort: passed on to providers that know it; `none` where reasoning can be switched off.
        extensions: departures from the paper's prompts.
    """

    seed: int = 0
    rule: Literal["exact", "lenient"] = "exact"
    mode: Mode = "sample"
    exact_tree: bool = False
    temperature: float = 1.0
    attempts: int = 20
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    extensions: Extensions = field(default_factory=Extensions)

    def __post_init__(self) -> None:
        make_plain(self)
        check_choice("rule", self.rule, ("exact", "lenient"))
        check_seed(self.seed, "seed")
        if not isinstance(self.extensions, Extensions):
            raise InputError(f"extensions must be Extensions, as Extensions(shots=1), got {self.extensions!r}")
        if self.max_tokens is None:
            object.__setattr__(self, "max_tokens", 1024 if self.extensions.think else 32)
        check_choice("mode", self.mode, get_args(Mode))
        check_flag("exact_tree", self.exact_tree)
        for name in ("attempts", "max_tokens"):
            check_count(name, getattr(self, name))
        heat = self.temperature
        if isinstance(heat, bool) or not isinstance(heat, int | float) or not 0 <= heat <= 2:
            raise InputError(f"temperature must lie in 0..2, got {heat!r}")
        if self.reasoning_effort is not None and not isinstance(self.reasoning_effort, str):
            raise InputError(f"reasoning_effort must be a word such as low, or None, got {self.reasoning_effort!r}")
        if self.temperature == 0 and self.mode == "exact":
            raise InputError("temperature must be above 0 in exact mode, got 0; leave it at 1")
        if self.temperature == 0 and self.attempts > 1:
            raise InputError(
                "temperature must be above 0 when a question may be asked again (a rejected answer would only repeat), "
                "got 0; pass a temperature such as 1, or a single attempt"
            )
        if self.mode == "exact" and self.extensions.think:
            raise InputError(
                "exact mode weighs whole answers, so it cannot let a model think first; drop one of the two"
            )

    @property
    def longest(self) -> int:
        """The longest reply, in tokens: `max_tokens`, a number from the start."""
        assert self.max_tokens is not None
        return self.max_tokens

    def questions(self, cell: Cell, count: int) -> list[Question]:
        """The questions of a cell; every model gets the same."""
        return questions(cell.formulation, cell.hops, count, self.seed, extensions=self.extensions)


def cells(formulations: Sequence[str] = (), hops: Sequence[int] | None = None) -> list[Cell]:
    """The points to measure: equations over D, 1 to 6 by default, the other formulations at the paper's D."""
    formulations = check_items("formulations", formulations, "names")
    equation_hops = EQUATION_HOPS if hops is None else check_items("hops", hops, "whole numbers")
    for depth in equation_hops:
        check_count("hops", depth)
    found: list[Cell] = []
    forms = [formulation(name) for name in formulations] or list(FORMULATIONS.values())
    if hops and "equations" not in {form.name for form in forms}:
        raise InputError(
            f"hops are those of equations, others have the paper's, got hops for {', '.join(f.name for f in forms)}; "
            "leave hops out, or ask equations too"
        )
    for form in forms:
        asked = equation_hops if form.name == "equations" else (form.paper_hops,)
        found += [Cell(form.name, d) for d in asked]
    return list(dict.fromkeys(found))
