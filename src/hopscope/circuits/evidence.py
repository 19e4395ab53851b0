"""What a certificate is judged on: a model, a program, fresh sequences, and what one asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.bootstrap import Interval, intervals
from hopscope.circuits.coordinates import visible_roles
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import IDENTITY, UNIFORM, Form, Intervention, one_hot
from hopscope.circuits.hypotheses import Hypotheses, Rows, form_of
from hopscope.problem.counter import derive_seed
from hopscope.theory.path import AttentionPath, Row
from hopscope.training.data import held_out

Part = dict[str, Any]
"""One part of a certificate: `passed`, a sentence `says`, its numbers and its seed."""


@dataclass(frozen=True)
class Effort:
    """How many sequences and random draws stand behind a certificate.

    Attributes:
        sequences: behind the losses of the circuit and of its paths.
        few: behind everything that is compared with random draws.
        draws: random paths, circuits or subsets in each such comparison.
    """

    sequences: int = 256
    few: int = 48
    draws: int = 16


class Evidence:
    """A program on fresh sequences.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        forms: of the search.
        program: the circuit with its forms imposed, every row named.
        bar: the loss a circuit may have at most.
        seed: of the fresh sequences and random draws; no search sees them.
        effort: how much of each.
    """

    def __init__(
        self, evaluator: Evaluator, hypotheses: Hypotheses, program: Rows, bar: float, seed: int, effort: Effort
    ) -> None:
        self.problem, self.bar, self.seed, self.effort = evaluator.problem, bar, seed, effort
        self.hypotheses = hypotheses
        batch = held_out(evaluator.problem, effort.sequences, seed, "circuit certificate")
        self.evaluator = Evaluator(evaluator.transformer, evaluator.problem, batch)
        self.few = Evaluator(evaluator.transformer, evaluator.problem, batch[: effort.few])
        self.program = program
        self.natural: Rows = {r: e if hypotheses.is_off(r, e) else form_of({}, r) for r, e in program.items()}
        self.nothing: Rows = dict.fromkeys(evaluator.rows, UNIFORM)

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """Every path, first layer first."""
        return [
            AttentionPath(*row, key)
            for row, form in sorted(self.program.items())
            for key, _ in self.hypotheses.keys(row, form)
        ]

    @cached_property
    def rows(self) -> list[Row]:
        """Rows in use: those with a path, and helpers."""
        last, query = self.evaluator.shape.layers - 1, self.evaluator.where.roles - 1
        live = (row for row in sorted(self.program) if row.layer < last or row.query == query)
        return [row for row in live if not self.hypotheses.is_off(row, self.program[row])]

    @cached_property
    def helpers(self) -> list[Row]:
        """Rows in use that attend to no other role of their own chain."""
        with_path = {path.row for path in self.paths}
        return [row for row in self.rows if row not in with_path]

    @cached_property
    def outside(self) -> list[Row]:
        """Rows that could reach an answer and are not in use."""
        last, query = self.evaluator.shape.layers - 1, self.evaluator.where.roles - 1
        used = set(self.rows)
        return [r for r in self.evaluator.rows if r not in used and (r.layer < last or r.query == query)]

    @cached_property
    def visible(self) -> Bool[Tensor, "role role"]:
        """Whether a role may attend to another."""
        return visible_roles(self.evaluator.batch.place, self.evaluator.shape.causal)

    def without(self, path: AttentionPath) -> Rows:
        """The imposed circuit without one path: its row uniform, or, where it has several keys, without this one."""
        return {**self.program, path.row: removed(self.program[path.row], path)}

    def random(self, purpose: str) -> torch.Generator:
        """A generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self.seed, "circuit certificate", purpose))

    def bootstrap_seed(self) -> int:
        """The seed of every bootstrap."""
        return derive_seed(self.seed, "circuit certificate", "bootstrap")


def by_sequence(evaluator: Evaluator, programs: list[Rows]) -> Float[Tensor, "program sequence"]:
    """Losses by sequence."""
    return evaluator.errors(programs).double().mean(dim=2)


def measured(evidence: Evidence, values: Float[Tensor, "measurement sequence"]) -> list[tuple[float, Interval]]:
    """Means with their intervals, rounded for people."""
    found = intervals(values, evidence.bootstrap_seed())
    means: list[float] = values.mean(dim=1).tolist()
    return [(tidy(mean), (tidy(low), tidy(high))) for mean, (low, high) in zip(means, found, strict=True)]


def removed(edit: Form, path: AttentionPath) -> Form:
    """A form without the key of one of its paths."""
    if edit.kind is Intervention.MIXTURE:
        (rest,) = [other for other in edit.keys if other != path.key]
        return IDENTITY if rest == path.query else one_hot(rest)
    return UNIFORM


def tidy(value: float) -> float:
    """Six digits: more would be noise."""
    return float(f"{value:.6g}")
