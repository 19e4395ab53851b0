"""Hypotheses about what a row of attention does, simplest first (Appendix E, steps 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable

from jaxtyping import Bool
from torch import Tensor

from hopscope.circuits.evaluate.form import (
    ALIKE,
    IDENTITY,
    KEEP,
    POSITIONAL,
    UNIFORM,
    ZERO,
    Form,
    Intervention,
    one_hot,
    own_pattern,
)
from hopscope.circuits.evaluate.role_maps import RoleMaps
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import Row

Draft = dict[Row, Form]
"""A program that is being drawn up: unlike a `Program`, it may be changed."""

_LEAST_WEIGHT = 0.1
"""How much more mean weight a role must get than the same role of another chain to count as attended to."""


class Hypotheses:
    """What each row of a model could be doing.

    Args:
        maps: role maps of the model as it is.
        visible: whether the first role may attend to the second.
        problem: the problem whose roles they are.
    """

    def __init__(self, maps: RoleMaps, visible: Bool[Tensor, "role role"], problem: RetrievalProblem) -> None:
        self._maps, self._visible, self._problem = maps, visible, problem

    def of(self, row: Row) -> list[Form]:
        """The hypotheses about a row in use: one role, two roles, the mean pattern, the positional one, its own.

        Single roles come in the order: the other member of the pair, the same symbol elsewhere, then by falling weight.
        For a row that never tells its own chain from others, its own pattern is the only hypothesis.
        """
        if self.chainless(row):
            return [KEEP]
        weight = self.weights(row)
        forms = [one_hot(key) for key in self.heavy(row)]
        two = sorted((*self._others(row), row.query), key=lambda key: -weight[key])[:2]
        if len(two) == 2 and weight[two[1]] >= _LEAST_WEIGHT:
            forms.append(Form(Intervention.MIXTURE, tuple(two), tuple(weight[key] for key in two)))
        return [*forms, self.mean(row), POSITIONAL, KEEP]

    def offs(self, row: Row) -> list[Form]:
        """Ways to switch a row off, simplest first.

        Uniform and identity; and for a row that never tells its own chain from others, its average by role or by
        position: such a pattern does not depend on the chains, so it can only be part of the background.
        """
        return [UNIFORM, IDENTITY, *([self.mean(row), POSITIONAL] if self.chainless(row) else [])]

    def is_off(self, row: Row, form: Form) -> bool:
        """Whether a row in this form carries nothing from one position of a chain to another."""
        if form.kind in (Intervention.MEAN, Intervention.POSITIONAL):
            return self.chainless(row)
        return form in (UNIFORM, IDENTITY, ZERO)

    def in_use(self, program: Draft, rows: Iterable[Row]) -> list[Row]:
        """Those of the given rows that a program does not switch off."""
        return [row for row in rows if not self.is_off(row, program[row])]

    def natural(self, program: Draft) -> Draft:
        """The natural reading of a program: rows in use make their own patterns, others are off as they are in it.

        A row that is said to look at all chains alike does so.
        """
        return {row: form if self.is_off(row, form) else own_pattern(form) for row, form in program.items()}

    def chainless(self, row: Row) -> bool:
        """Whether there is no other role that a row attends to more (by 0.1) in its own chain than in other chains."""
        return all(excess < _LEAST_WEIGHT for excess in self._excess(row).values())

    def mean(self, row: Row) -> Form:
        """The mean pattern of a row, as a form."""
        expected = self._maps.expected[0, row.layer, row.head, row.query].double()
        # So that no query is left without a key where the average has no weight on anything that it may see.
        return Form(Intervention.MEAN, (), tuple((expected + 1e-12).tolist()))

    def blind(self, row: Row) -> Form:
        """The mean pattern of a row with no more and no less on its own chain, but for itself, than on any other."""
        mean, roles = self.mean(row).weights, len(self._visible)
        own = [mean[role if role == row.query else roles + role] for role in range(roles)]
        return Form(Intervention.MEAN, (), (*own, *mean[roles:]))

    def weights(self, row: Row) -> list[float]:
        """Mean weight of a row on every role of its own chain."""
        weights: list[float] = self._maps.same[0, row.layer, row.head, row.query].double().tolist()
        return weights

    def heavy(self, row: Row) -> list[int]:
        """The other roles that a row attends to in its own chain, in the order in which they are tried."""
        query, excess, problem = row.query, self._excess(row), self._problem
        symbols_of_pairs = 2 * problem.hops if problem.graph == "chain" else -1

        def preference(key: int) -> tuple[int, float]:
            if 0 < problem.fact_of(key) == problem.fact_of(query):
                return (0, -excess[key] if max(key, query) > symbols_of_pairs else 0.0)
            if 0 <= problem.symbol_of(key) == problem.symbol_of(query):
                return (1, -excess[key])
            return (2, -excess[key])

        return sorted((key for key, more in excess.items() if more >= _LEAST_WEIGHT), key=preference)

    def keys(self, row: Row, form: Form) -> list[tuple[int, float]]:
        """The key roles that a row in this form attends to besides the query itself, each with its weight.

        Empty if the row is off, or looks at all chains alike. In its mean pattern, its positional one and its own, a
        row attends to the roles of `heavy`.
        """
        if form.kind is Intervention.ONE_HOT:
            return [(form.keys[0], 1.0)]
        if form.kind is Intervention.MIXTURE:
            total = sum(form.weights)
            pairs = [(key, weight / total) for key, weight in zip(form.keys, form.weights, strict=True)]
            return [(key, weight) for key, weight in pairs if key != row.query]
        if form == ALIKE or self.is_off(row, form):
            return []
        weight = self.weights(row)
        return [(key, weight[key]) for key in sorted(self.heavy(row), key=lambda key: -weight[key])]

    def _excess(self, row: Row) -> dict[int, float]:
        """For every other role, the mean weight on a position in the own chain less that on one in another chain."""
        expected = self._maps.expected[0, row.layer, row.head, row.query].double()
        roles = len(expected) // 2
        excess = (expected[:roles] - expected[roles:]).tolist()
        return {key: excess[key] for key in self._others(row)}

    def _others(self, row: Row) -> list[int]:
        """The other roles that a row may attend to."""
        return [key for key in range(len(self._visible)) if key != row.query and self._visible[row.query, key]]
