"""The rows of a model, and hypotheses about what each row does, simplest first (Appendix E, steps 2 and 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from jaxtyping import Bool
from torch import Tensor

from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    CHOSEN,
    IDENTITY,
    KEEP,
    POSITIONAL,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    changed,
    one_hot,
    own_pattern,
)
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.model.role_maps import RoleMaps
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import Problem

_LEAST_WEIGHT = 0.1
"""A row attends to a role if it has at least this much more mean weight in its own chain than in another chain."""


@dataclass(frozen=True, eq=False)
class Units:
    """The rows of a model that can reach an answer, and the hypotheses about each row.

    Attributes:
        rows: the rows that can reach an answer.
        base: interventions from which a search starts; at first, these rows keep their patterns and others are uniform.
        maps: role maps of the unmodified model.
        visible: whether the first role can attend to the second.
        problem: the problem that the model answers.
        off_is_alike: whether switching off a row makes it chain-agnostic, as in pretrained models.
    """

    rows: tuple[HeadRow, ...]
    base: Interventions
    maps: RoleMaps
    visible: Bool[Tensor, "role role"]
    problem: Problem
    off_is_alike: bool = False

    @classmethod
    def of(cls, evaluator: Evaluator) -> Units:
        """Return the units of a model, with role maps measured on the evaluator's sequences."""
        live = evaluator.live_rows
        base = dict.fromkeys(evaluator.rows, UNIFORM) | dict.fromkeys(live, KEEP)
        maps, visible = evaluator.role_maps(), evaluator.where.visible
        return cls(live, base, maps, visible, evaluator.problem, evaluator.off_is_alike)

    def within(self, interventions: Interventions) -> Units:
        """Return the same units with another `base`."""
        return replace(self, base=interventions)

    def on(self, interventions: Interventions) -> list[HeadRow]:
        """Return the rows that are active under interventions."""
        return [row for row in self.rows if not self.is_off(row, interventions[row])]

    def only(self, interventions: Interventions, rows: Collection[HeadRow]) -> Interventions:
        """Return the interventions with all active rows switched off except the given rows."""
        return changed(interventions, {row: UNIFORM for row in self.on(interventions) if row not in rows})

    def paths(self, interventions: Interventions) -> list[AttentionPath]:
        """Return the attention paths of interventions."""
        return [AttentionPath(*row, key) for row in self.rows for key in self.keys(row, interventions[row])]

    def hypotheses(self, row: HeadRow) -> list[Ablation]:
        """Return the hypotheses about an active row: one role, two roles, mean, positional pattern, own pattern.

        Single roles are in this order: the other member of the pair, the same symbol elsewhere, then all other roles
        from the highest weight to the lowest. A chain-agnostic row has only one hypothesis, its own pattern.
        """
        if self.chainless(row):
            return [KEEP]
        weight = self.weights(row)
        ablations = [one_hot(key) for key in self.heavy(row)]
        two = sorted((*self._others(row), row.query), key=lambda key: -weight[key])[:2]
        if len(two) == 2 and weight[two[1]] >= _LEAST_WEIGHT:
            ablations.append(Ablation(AblationKind.MIXTURE, tuple(two), tuple(weight[key] for key in two)))
        return [*ablations, self.mean(row), POSITIONAL, KEEP]

    def offs(self, row: HeadRow) -> list[Ablation]:
        """Return the ways to switch off a row, simplest first.

        Every row can be uniform or the identity. A chain-agnostic row can also get its mean by role or by position,
        which does not depend on the chains. Pretrained models have `uniform` only: the row's pattern, chain-agnostic.
        """
        if self.off_is_alike:
            return [UNIFORM]
        return [UNIFORM, IDENTITY, *([self.mean(row), POSITIONAL] if self.chainless(row) else [])]

    def is_off(self, row: HeadRow, ablation: Ablation) -> bool:
        """Whether a row with this ablation carries no information from one position of a chain to another."""
        if ablation.kind in (AblationKind.MEAN, AblationKind.POSITIONAL):
            return self.chainless(row)
        return ablation in (UNIFORM, IDENTITY, ZERO)

    def own_patterns(self, interventions: Interventions) -> Interventions:
        """Return the interventions with own patterns in the active rows; chain-agnostic rows stay chain-agnostic."""
        return {
            row: ablation if self.is_off(row, ablation) else own_pattern(ablation)
            for row, ablation in interventions.items()
        }

    def chainless(self, row: HeadRow) -> bool:
        """Whether no other role gets 0.1 more mean weight in the row's own chain than in other chains."""
        return all(excess < _LEAST_WEIGHT for excess in self._excess(row).values())

    def mean(self, row: HeadRow) -> Ablation:
        """Return the mean pattern of a row, as an ablation."""
        expected = self.maps.expected[0, row.layer, row.head, row.query].double()
        # A little is added to each weight, so that a query always has a key, even if the mean has no weight there.
        return Ablation(AblationKind.MEAN, (), tuple((expected + 1e-12).tolist()))

    def blind(self, row: HeadRow) -> Ablation:
        """Return a row's mean pattern in which all other roles of the own chain get the weights of other chains."""
        mean, roles = self.mean(row).weights, len(self.visible)
        own = [mean[role if role == row.query else roles + role] for role in range(roles)]
        return Ablation(AblationKind.MEAN, (), (*own, *mean[roles:]))

    def weights(self, row: HeadRow) -> list[float]:
        """Return the mean weight of a row on every role of its own chain."""
        weights: list[float] = self.maps.same[0, row.layer, row.head, row.query].double().tolist()
        return weights

    def heavy(self, row: HeadRow) -> list[int]:
        """Return the other roles that a row attends to in its own chain, in the order in which they are tried."""
        query, excess, problem = row.query, self._excess(row), self.problem

        def preference(key: int) -> tuple[int, float]:
            if 0 < problem.fact_of(key) == problem.fact_of(query):
                return (0, -excess[key] if max(key, query) > 2 * problem.hops else 0.0)
            if 0 <= problem.symbol_of(key) == problem.symbol_of(query):
                return (1, -excess[key])
            return (2, -excess[key])

        return sorted((key for key, more in excess.items() if more >= _LEAST_WEIGHT), key=preference)

    def keys(self, row: HeadRow, ablation: Ablation) -> list[int]:
        """Return the key roles that a row with this ablation attends to.

        The query itself is left out, unless it is the only key of a one-hot row. The list is empty if the row is off or
        chain-agnostic. A row with its mean, positional or own pattern attends to the roles in `heavy`, returned here
        from the highest weight to the lowest.
        """
        if ablation.kind in CHOSEN:
            return [key for key in ablation.keys if key != row.query or ablation.kind is AblationKind.ONE_HOT]
        if ablation == ALIKE or self.is_off(row, ablation):
            return []
        weight = self.weights(row)
        return sorted(self.heavy(row), key=lambda key: -weight[key])

    def _excess(self, row: HeadRow) -> dict[int, float]:
        """Return, for every other role, its mean weight in the own chain minus its mean weight in another chain."""
        expected = self.maps.expected[0, row.layer, row.head, row.query].double()
        roles = len(expected) // 2
        excess = (expected[:roles] - expected[roles:]).tolist()
        return {key: excess[key] for key in self._others(row)}

    def _others(self, row: HeadRow) -> list[int]:
        return [key for key in range(len(self.visible)) if key != row.query and self.visible[row.query, key]]
