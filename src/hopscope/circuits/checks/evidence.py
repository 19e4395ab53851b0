"""The measurements behind the checks: the rows a circuit claims, how each is removed, and the loss without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig, Patterns
from hopscope.circuits.checks.losses import FreshLosses
from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    CHOSEN,
    IDENTITY,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    knock_out,
    moved,
)
from hopscope.circuits.evaluate.chains import seen_elsewhere
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup
from hopscope.statistics import Measured

COUNTS = 0.2
"""A row or path matters if the loss without it rises by at least this share of the threshold."""

_OFTEN = 0.5
"""The weight on a key can be moved to other chains if at least this share of the row's queries see the key there."""

_What = TypeVar("_What", bound=Hashable)


class Lost(NamedTuple):
    """The circuit's loss when a part is removed, how much the loss rises, and how much it must rise (`due`)."""

    loss: Measured
    rise: Measured
    due: float


class Evidence:
    """A circuit on fresh sequences, with the losses that its checks and its card are judged by.

    `fresh` has the losses, `evaluator` the model on all their sequences; checks judge `base`; `own` has own patterns.

    Args:
        evaluator: the model, on any batch; only its transformer and problem are used.
        units: the rows of the model, and the hypotheses of the search about them.
        imposed: the circuit with its patterns imposed: the ablation of every row of the model.
        max_loss: the loss threshold; losses are compared with it unless another limit is named.
        seed: the seed of the fresh sequences and random draws, which no search sees.
        proof: the numbers of sequences and random draws.
        patterns: whether the circuit is judged with the model's own patterns in its active rows, or with imposed ones.
        groups: the groups of redundant paths of the circuit.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        units: Units,
        imposed: Interventions,
        max_loss: float,
        seed: int,
        proof: CertificateConfig,
        patterns: Patterns = "own",
        groups: tuple[PathGroup, ...] = (),
    ) -> None:
        self.problem, self.patterns, self.units, self.imposed = evaluator.problem, patterns, units, imposed
        self.max_loss, self.proof = max_loss, proof
        self.own = units.own_patterns(imposed)
        self.base = self.own if patterns == "own" else imposed
        self.nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
        self.groups, self.grouped = groups, frozenset(path for group in groups for path in group.paths)
        self.fresh = FreshLosses(evaluator, self.base, max_loss, seed, proof)
        self.evaluator = self.fresh.all

    # What the circuit claims

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """All paths of the circuit, sorted from the first layer to the last."""
        rows = sorted(self.imposed.items())
        return [AttentionPath(*row, key) for row, ablation in rows for key in self.units.keys(row, ablation)]

    @cached_property
    def _keys(self) -> Counter[HeadRow]:
        return Counter(path.row for path in self.paths)

    @cached_property
    def partial(self) -> list[AttentionPath]:
        """The paths that are only a part of what their row does: such a path can be idle even if its row is needed.

        These are the paths of rows with several paths, and of rows whose ablation is a whole pattern. A whole pattern
        also puts weight on other keys, such as a position to rest at, and that weight may be all that is needed.
        """
        return [path for path in self.paths if self._keys[path.row] > 1 or self.imposed[path.row].kind not in CHOSEN]

    @cached_property
    def rows(self) -> list[HeadRow]:
        """The active rows: rows with a path, and helper rows."""
        return [row for row in self.evaluator.live_rows if not self.units.is_off(row, self.imposed[row])]

    @property
    def helpers(self) -> list[HeadRow]:
        """The active rows that attend to all chains alike, or to no role of their own chain but their own."""
        return [row for row in self.rows if row not in self._keys]

    @cached_property
    def outside(self) -> list[HeadRow]:
        """The rows that can reach an answer but are not active."""
        used = set(self.rows)
        return [row for row in self.evaluator.live_rows if row not in used]

    @property
    def at_mean(self) -> list[HeadRow]:
        """The inactive rows that are replaced by their mean or positional mean instead of switched off."""
        return [row for row in self.outside if self.imposed[row] not in (UNIFORM, ZERO, IDENTITY)]

    @property
    def carrying_nothing(self) -> Interventions:
        """The rows that carry nothing according to the circuit, each with an ablation that removes what it could carry.

        A row that attends to itself in the circuit keeps doing so. A row that tells its own chain from others becomes
        uniform. Any other row keeps its own pattern, made chain-agnostic.
        """
        at_themselves = [row for row in self.outside if self.imposed[row] == IDENTITY]
        free = [row for row in self.outside if self.imposed[row] in (UNIFORM, ZERO)]
        ablated = {row: ALIKE if self.units.chainless(row) else UNIFORM for row in free}
        return ablated | dict.fromkeys(at_themselves, IDENTITY)

    @cached_property
    def exempt(self) -> frozenset[HeadRow]:
        """Rows that can be idle only because patterns are imposed; they are judged in the circuit with own patterns.

        These are the rows of the first active layer (the paper's exception, Appendix E), or none with own patterns.
        """
        first = min((row.layer for row in self.rows), default=0)
        return frozenset(row for row in self.rows if self.patterns == "imposed" and row.layer == first)

    def around(self, row: HeadRow) -> Interventions:
        """Return the circuit in which a row is judged: `own` if the row is exempt, otherwise `base`."""
        return self.own if row in self.exempt else self.base

    def name(self, row: HeadRow) -> str:
        """Return the name of a row in reports, for example `layer 2 head 1 x0?`."""
        return f"layer {row.layer + 1} head {row.head + 1} {self.evaluator.names[row.query]}"

    # Ways to take something away

    def without(self, path: AttentionPath) -> Interventions:
        """Return the imposed circuit without a path: its row is uniform or, if it has other keys, loses this key."""
        return {**self.imposed, path.row: self._removed(path)}

    @cached_property
    def off(self) -> dict[HeadRow, Ablation]:
        """The cheapest way to switch off each active row, among the ways that a search can choose from."""
        return self._cheapest([(row, row, off) for row in self.rows for off in self._ways_off(row)])

    @cached_property
    def keyless(self) -> dict[AttentionPath, Ablation]:
        """For each path, the cheapest ablation that removes its key from its row, in the circuit `around` this row."""
        ways = [(path, ablation) for path in self.paths for ablation in self._ways_without(path)]
        return self._cheapest([(path, path.row, ablation) for path, ablation in ways])

    def unclaimed(self, path: AttentionPath) -> Ablation:
        """Return an ablation of a path's row that removes the information that the circuit claims to come from the key.

        A row with only one key is switched off. If only the key were knocked out, the row could read the same
        information from another key that the circuit does not name.
        """
        return self._removed(path) if self._keys[path.row] > 1 else self.off[path.row]

    def together_off(self, paths: Sequence[AttentionPath]) -> Interventions:
        """Return ablations that remove these paths: a row is off, or loses only the key if it has other paths."""
        gone = Counter(path.row for path in paths)
        one_of_several = [path for path in paths if gone[path.row] == 1 < self._keys[path.row]]
        keyless = {path.row: self.keyless[path] for path in one_of_several if path in self.keyless}
        return {row: self.off[row] for row in gone} | keyless

    def without_backups(self, row: HeadRow) -> Interventions:
        """Return ablations that remove the backups of a row in its first group, so that the row itself is needed."""
        group = next((group for group in self.groups if any(path.row == row for path in group.paths)), None)
        others = [path for path in group.paths if path.row != row] if group else []
        return self.together_off(others[: len(group.paths) - group.needs]) if group else {}

    def _cheapest(self, ways: Sequence[tuple[_What, HeadRow, Ablation]]) -> dict[_What, Ablation]:
        """Return the ablation with the lowest loss for each item; `ways` are triples of item, row and ablation."""
        least: dict[_What, tuple[float, Ablation]] = {}
        losses = self.fresh.screened([{**self.around(row), row: ablation} for _, row, ablation in ways], self.max_loss)
        for (what, _, ablation), loss in zip(ways, losses, strict=True):
            if what not in least or loss < least[what][0]:
                least[what] = loss, ablation
        return {what: ablation for what, (_, ablation) in least.items()}

    def _ways_without(self, path: AttentionPath) -> list[Ablation]:
        """Return the ways to remove a path's key from its row.

        If the row may attend elsewhere too, the key can be knocked out. If at least half of the queries see the key
        in other chains, its weight can be moved there; in text, other chains have no position for the asked symbol.
        """
        often = seen_elsewhere(self.fresh.rough.where, path.query, path.key) >= _OFTEN
        judged = self.around(path.row) is self.own
        gone = [knock_out(path.key) if judged else self._removed(path)] if path in self.partial else []
        return [*gone, moved(path.key)] if often else gone

    def _removed(self, path: AttentionPath) -> Ablation:
        """Return the imposed ablation of a path's row without the path's key; uniform if the row has no other key."""
        ablation = self.imposed[path.row]
        if ablation.kind is AblationKind.MIXTURE:
            weights = zip(ablation.keys, ablation.weights, strict=True)
            rest = {key: weight for key, weight in weights if key != path.key}
            if sum(rest.values()) > 0:
                return Ablation(AblationKind.MIXTURE, tuple(rest), tuple(rest.values()))
        return knock_out(path.key) if path in self.partial else UNIFORM

    def _ways_off(self, row: HeadRow) -> list[Ablation]:
        """Return the ways to switch off an active row; with imposed patterns, those used for other rows of its head."""
        if self.patterns == "own":
            return self.units.offs(row)
        others = [
            (other, ablation) for other, ablation in self.imposed.items() if other[:2] == row[:2] and other != row
        ]
        fills = [ablation for other, ablation in others if self.units.is_off(other, ablation)]
        alone = len(fills) == len(others)
        return list(dict.fromkeys([*fills, *([UNIFORM, IDENTITY] if alone or not fills else [])]))

    # The loss when a part is removed

    @cached_property
    def wholes(self) -> Float[Tensor, "whole sequence"]:
        """The losses of the model, of the imposed circuit, of the circuit with own patterns, and with all rows off."""
        wholes, judged = [{}, self.imposed, self.own, self.nothing], 2 if self.patterns == "own" else 1
        found = self.fresh.losses(self.evaluator, wholes)
        doubtful = self.fresh.in_doubt(found[judged], self.max_loss)
        return self.fresh.losses(self.fresh.more, wholes) if doubtful else found

    @cached_property
    def lost(self) -> dict[HeadRow, Lost]:
        """For each active row, the loss of the circuit when this row is switched off."""
        return self._lost({row: {row: self.off[row]} for row in self.rows})

    @cached_property
    def lost_keys(self) -> dict[AttentionPath, Lost]:
        """For each path, the loss of the circuit when the path's key is removed from its row."""
        return self._lost({path: {path.row: ablation} for path, ablation in self.keyless.items()})

    @cached_property
    def lost_groups(self) -> dict[tuple[AttentionPath, ...], Lost]:
        """The loss of the circuit without one path more than a group can spare, for every choice of these paths."""
        choices = [combinations(group.paths, len(group.paths) - group.needs + 1) for group in self.groups]
        return self._lost({chosen: self.together_off(chosen) for of_group in choices for chosen in of_group})

    def _lost(self, gone: dict[_What, Interventions]) -> dict[_What, Lost]:
        """Measure the loss without each item, on enough sequences to decide whether the item is needed."""
        around = {what: self.around(next(iter(rows))) for what, rows in gone.items()}
        self.fresh.losses(self.fresh.few, [around[what] | rows for what, rows in gone.items()])  # all in one pass

        def one(what: _What) -> Lost:
            due = (1.0 if next(iter(gone[what])) in self.exempt else COUNTS) * self.max_loss

            def loss_and_rise(evaluator: Evaluator) -> Float[Tensor, "of sequence"]:
                without, own = self.fresh.losses(evaluator, [around[what] | gone[what], around[what]])
                return torch.stack([without, without - own])

            def open_(found: Float[Tensor, "of sequence"]) -> bool:
                limits = (self.max_loss, due)
                doubtful = [self.fresh.in_doubt(values, limit) for values, limit in zip(found, limits, strict=True)]
                below = [float(values.mean()) < limit for values, limit in zip(found, limits, strict=True)]
                return any(doubtful) and not any(low and not doubt for low, doubt in zip(below, doubtful, strict=True))

            found = self.fresh.until_clear(loss_and_rise, open_)
            loss, rise = map(self.fresh.measured, found)
            return Lost(loss, rise, due)

        return {what: one(what) for what in gone}

    def faithfulness(self, losses: Iterable[float], best: Interventions | None = None) -> list[float]:
        """Convert losses on few sequences to faithfulness: 0 with all rows off, 1 for `best` (default: the model)."""
        nothing, full = self.fresh.mean_losses([self.nothing, best or {}])
        return [(nothing - loss) / (nothing - full) if full < nothing else 0.0 for loss in losses]
