"""What a search decides on: rows of attention, what each could be doing, and the program it starts from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.form import KEEP, UNIFORM, Form
from hopscope.circuits.evaluate.hypotheses import Draft, Hypotheses
from hopscope.theory.path import AttentionPath, Row


@dataclass(frozen=True)
class Units:
    """Rows, hypotheses, and a program to start from.

    Attributes:
        hypotheses: what every row could be doing.
        rows: the rows that can reach an answer.
        base: the form of every row of the model. At first all of `rows` are kept and the others uniform.
    """

    hypotheses: Hypotheses
    rows: tuple[Row, ...]
    base: Draft

    @classmethod
    def of(cls, evaluator: Evaluator) -> Units:
        """The units of a model, as the evaluator's sequences show it."""
        hypotheses = Hypotheses(evaluator.role_maps(), evaluator.where.visible, evaluator.problem)
        live = evaluator.live_rows
        return cls(hypotheses, live, dict.fromkeys(evaluator.rows, UNIFORM) | dict.fromkeys(live, KEEP))

    def within(self, program: Draft) -> Units:
        """The same, starting from another program."""
        return replace(self, base=program)

    def on(self, program: Draft) -> list[Row]:
        """The rows that a program has in use."""
        return self.hypotheses.in_use(program, self.rows)

    def in_use(self, program: Draft, row: Row) -> bool:
        """Whether a program has a row in use."""
        return not self.hypotheses.is_off(row, program[row])

    def only(self, program: Draft, rows: Collection[Row]) -> Draft:
        """A program with all its rows in use switched off except the given ones."""
        return {**program, **{row: UNIFORM for row in self.on(program) if row not in rows}}

    def natural(self, program: Draft) -> Draft:
        """The same rows in use, each with the model's own pattern."""
        return self.hypotheses.natural(program)

    def offs(self, row: Row) -> list[Form]:
        """Ways to switch a row off, simplest first."""
        return self.hypotheses.offs(row)

    def paths(self, program: Draft) -> list[AttentionPath]:
        """The attention paths of a program."""
        return [AttentionPath(*row, key) for row in self.rows for key, _ in self.hypotheses.keys(row, program[row])]
