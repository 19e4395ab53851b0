"""A model with every head's whole map replaced (Appendix E): idle heads by one form, useful ones by where they look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopscope.circuits.evaluate.form import IDENTITY, UNIFORM, Form, Intervention, Program, one_hot
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.theory.path import AttentionPath, Row

HeadNumbers = tuple[int, int]
"""Layer and head, from 0."""

Looks = Mapping[int, int]
"""Where a useful head looks: key role by query role."""

IDLE = (UNIFORM, IDENTITY)
"""The forms that an idle head may have, "whichever serves"."""


@dataclass(frozen=True)
class Imposed:
    """What is imposed on each head; heads not named are left as they are.

    Attributes:
        heads: for each head, one of the forms of `IDLE`, or where the head looks.
        fill: the form of a useful head's other rows.
        roles: how many roles a chain has, 2D + 1.
    """

    heads: Mapping[HeadNumbers, Form | Looks]
    fill: Form
    roles: int

    @property
    def program(self) -> Draft:
        """The program: the form of every row of the heads named."""
        program: Draft = {}
        for (layer, head), does in self.heads.items():
            for query in range(self.roles):
                program[Row(layer, head, query)] = does if isinstance(does, Form) else self._form(does, query)
        return program

    @property
    def paths(self) -> list[AttentionPath]:
        """The paths by which the useful heads look, first layer first."""
        useful = ((head, does) for head, does in self.heads.items() if not isinstance(does, Form))
        return sorted(AttentionPath(*head, query, key) for head, looks in useful for query, key in looks.items())

    @property
    def useful(self) -> set[HeadNumbers]:
        """The heads with a path."""
        return {head for head, does in self.heads.items() if not isinstance(does, Form)}

    def with_head(self, head: HeadNumbers, does: Form | Looks) -> Imposed:
        """The same with one head changed."""
        return Imposed({**self.heads, head: does}, self.fill, self.roles)

    def without(self, path: AttentionPath) -> list[Imposed]:
        """One path taken away: its row filled like the others or, if it was the head's only path, the head idle.

        In the latter case there is one result for each form of `IDLE`.
        """
        head, looks = (path.layer, path.head), self.heads[path.layer, path.head]
        assert not isinstance(looks, Form)
        left = {query: key for query, key in looks.items() if query != path.query}
        return [self.with_head(head, does) for does in ([left] if left else IDLE)]

    @classmethod
    def read(cls, program: Program, fill: Form, roles: int) -> Imposed:
        """The imposed model that a program was made from.

        Args:
            program: the form of every row of every head.
            fill: the form of a useful head's other rows.
            roles: how many roles a chain has, 2D + 1.
        """
        heads: dict[HeadNumbers, Form | Looks] = {}
        for layer, head in sorted({(row.layer, row.head) for row in program}):
            forms = [program[Row(layer, head, query)] for query in range(roles)]
            looks = {query: form.keys[0] for query, form in enumerate(forms) if form.kind is Intervention.ONE_HOT}
            heads[layer, head] = looks or forms[0]
        return cls(heads, fill, roles)

    def _form(self, looks: Looks, query: int) -> Form:
        return one_hot(looks[query]) if query in looks else self.fill
