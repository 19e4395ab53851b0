"""Apply ablations to attention patterns, for many candidates at once.

Nearly every ablation follows one formula, normalise(base x factor). `base` is the model's own pattern, the pattern of
another example, the average over all examples, or 1 for every allowed key. `factor` depends on the role of the query
and on the relation of the key to it. Only `alike` and `moved` compare the keys of a query with each other (`chains`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from functools import cached_property

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.chains import ChainsSeen, SharedKeys
from hopscope.kernels import FixedRows
from hopscope.model.hooks import Hooks, Pattern
from hopscope.model.role_maps import Coordinates
from hopscope.model.skipped_heads import SkippingHooks

_FROM_MODEL = (
    AblationKind.KEEP,
    AblationKind.KNOCK_OUT,
    AblationKind.RESAMPLE,
    AblationKind.POSITIONAL,
    AblationKind.ALIKE,
    AblationKind.MOVED,
)
_KEEP, _OWN, _OTHER, _AVERAGE, _ALIKE, _MOVED, _FIXED = range(7)
"""The codes of the bases: those of the kinds in `_FROM_MODEL`, in the same order, and `_FIXED` for all other kinds."""

MIXING = (AblationKind.RESAMPLE, AblationKind.POSITIONAL)
"""The kinds that use patterns of other sequences; the whole batch must then go through the model at once."""

HeadAblations = tuple[tuple[int, Ablation], ...]
"""The ablations of one head's rows: pairs of a query role and its ablation, by ascending role."""

LayerAblations = dict[int, HeadAblations]
"""The ablations of one layer, by head; unmodified heads are left out."""

_CACHED = 96
"""The number of cached patterns, each of about 4 x sequences x positions^2 bytes."""


def _base(ablation: Ablation) -> int:
    return _FROM_MODEL.index(ablation.kind) if ablation.kind in _FROM_MODEL else _FIXED


class PatternCache:
    """Makes the patterns of one batch that do not depend on the model, and caches the most recently used patterns."""

    def __init__(self, where: Coordinates) -> None:
        self.where = where
        self._allowed = where.allowed.float()
        self._factors: dict[HeadAblations, Float[Tensor, "batch query key"]] = {}
        self._shared: dict[HeadAblations, SharedKeys] = {}
        self._changed: dict[HeadAblations, UInt8[Tensor, "batch query"]] = {}

    @cached_property
    def chains(self) -> ChainsSeen:
        """The chains of the batch."""
        return ChainsSeen(self.where)

    def factor(self, ablations: HeadAblations) -> Float[Tensor, "batch query key"]:
        """Return the factor of the base for every query and key: 0 where attention is not allowed.

        A query without an ablation has equal factors for all allowed keys. Rows sum to 1 unless own patterns are kept.
        """
        if ablations in self._factors:
            self._factors[ablations] = self._factors.pop(ablations)  # the most recently used entry comes last
            return self._factors[ablations]
        where = self.where
        table = torch.ones(where.roles, 2 * where.roles, device=where.role.device)
        for query, ablation in ablations:
            table[query] = factors(ablation, query, where.roles)
        made = table[where.role[..., None], where.relation] * self._allowed
        if not any(_base(ablation) == _OWN for _, ablation in ablations):
            total = made.sum(dim=-1, keepdim=True)
            made = made / torch.where(total > 0, total, 1.0)
        self._factors[ablations] = made
        if len(self._factors) > _CACHED:
            longest_unused = next(iter(self._factors))
            del self._factors[longest_unused]
            self._changed.pop(longest_unused, None)
        return made

    def fixed(
        self, ablations: HeadAblations
    ) -> tuple[UInt8[Tensor, "batch query"], Float[Tensor, "batch query key"]] | None:
        """Return which queries get a fixed pattern, and the pattern; None if an ablation needs the model's patterns."""
        if any(_base(ablation) != _FIXED for _, ablation in ablations):
            return None
        if ablations not in self._changed:
            self._changed[ablations] = (self.base(ablations)[..., 0] == _FIXED).to(torch.uint8)
        return self._changed[ablations], self.factor(ablations)

    def base(self, ablations: HeadAblations) -> Int[Tensor, "batch query 1"]:
        """Return the base of every query, as one of the codes above."""
        table = torch.zeros(self.where.roles, dtype=torch.int64)
        for query, ablation in ablations:
            table[query] = _base(ablation)
        return table.to(self.where.role.device)[self.where.role][..., None]

    def own(
        self, pattern: Float[Tensor, "*any query key"], ablations: HeadAblations
    ) -> Float[Tensor, "*any query key"]:
        """Return the model's pattern times the factor, scaled to sum to 1.

        If no weight is left, a row gets the factor itself or, if that is 0 too, all weight on its own position.
        """
        queries = pattern.shape[-2]
        factor = self.factor(ablations)[:, -queries:]
        itself = torch.eye(factor.shape[-1], device=factor.device)[-queries:]
        rest = torch.where(factor.sum(dim=-1, keepdim=True) > 0, factor, itself)
        raw = pattern * factor
        raw = torch.where(raw.sum(dim=-1, keepdim=True) < 1e-6, rest, raw)
        return raw / raw.sum(dim=-1, keepdim=True)

    def shared(self, ablations: HeadAblations) -> SharedKeys:
        """Return the keys that chain-agnostic rows treat alike in all chains."""
        alike = tuple((query, ablation) for query, ablation in ablations if ablation.kind is AblationKind.ALIKE)
        if alike not in self._shared:
            self._shared[alike] = self.chains.shared({query: ablation.keys for query, ablation in alike})
        return self._shared[alike]

    def changed(
        self, pattern: Float[Tensor, "candidate batch query key"], ablations: HeadAblations
    ) -> Float[Tensor, "*candidate batch query key"]:
        """Return the pattern of one head under the ablations of its rows; queries are the last positions."""
        queries = pattern.shape[-2]
        used = {_base(ablation) for _, ablation in ablations}
        changed = self.factor(ablations)[:, -queries:]
        if len(ablations) == self.where.roles and used == {_FIXED}:
            return changed
        base = self.base(ablations)[:, -queries:]
        changed = torch.where(base == _KEEP, pattern, changed)
        if _OWN in used:
            fixed = tuple((query, ablation) for query, ablation in ablations if _base(ablation) == _FIXED)
            changed = torch.where(base == _FIXED, self.factor(fixed)[:, -queries:], changed)
            changed = torch.where(base == _OWN, self.own(pattern, ablations), changed)
        if _ALIKE in used:
            changed = torch.where(base == _ALIKE, self.chains.alike(pattern, self.shared(ablations)), changed)
        if _MOVED in used:
            keys = {query: moved.keys for query, moved in ablations if moved.kind is AblationKind.MOVED}
            changed = torch.where(base == _MOVED, self.chains.moved(pattern, keys), changed)
        if _OTHER in used:
            changed = torch.where(base == _OTHER, pattern.roll(-1, dims=-3), changed)
        if _AVERAGE in used:
            changed = torch.where(base == _AVERAGE, pattern.mean(dim=-3, keepdim=True), changed)
        return changed


def factors(ablation: Ablation, query: int, roles: int) -> Float[Tensor, " relation"]:
    """Return the weight of each relation under an ablation, up to a constant factor."""
    factor, kind = torch.zeros(2 * roles), ablation.kind
    if kind is AblationKind.IDENTITY:
        factor[query] = 1.0
    elif kind is AblationKind.ONE_HOT:
        factor[ablation.keys[0]] = 1.0
    elif kind is AblationKind.MIXTURE:
        factor[list(ablation.keys)] = torch.tensor(ablation.weights)
    elif kind is AblationKind.MEAN:
        factor[:] = torch.tensor(ablation.weights)
    elif kind is not AblationKind.ZERO:  # uniform, or the model's own pattern, from which a knock-out removes keys
        factor[:] = 1.0
        factor[list(ablation.keys)] = 0.0
    return factor


def by_layer(
    interventions: Interventions, layers: int, skipped: Collection[tuple[int, int]] = frozenset()
) -> list[LayerAblations]:
    """Return interventions by layer and head, without unmodified rows and without the rows of skipped heads."""
    split: list[dict[int, list[tuple[int, Ablation]]]] = [{} for _ in range(layers)]
    for row, ablation in interventions.items():
        if ablation.kind is not AblationKind.KEEP and (row.layer, row.head) not in skipped:
            split[row.layer].setdefault(row.head, []).append((row.query, ablation))
    # Query roles of one head are all different, so ablations are never compared.
    return [{head: tuple(sorted(rows)) for head, rows in heads.items()} for heads in split]


class InterventionHooks(SkippingHooks):
    """Hooks that apply the interventions of several candidates (see `by_layer`) in a transformer's forward pass.

    Sequences are ordered by candidate: the whole batch under the first candidate, then under the second, and so on.
    """

    def __init__(self, candidates: Sequence[Sequence[LayerAblations]], cache: PatternCache) -> None:
        self._cache, self._candidates = cache, len(candidates)
        self._changes: dict[int, dict[tuple[int, HeadAblations], list[int]]] = {}
        for layer, of_layer in enumerate(zip(*candidates, strict=True)):
            changes = self._changes[layer] = {}
            for candidate, ablated in enumerate(of_layer):
                for change in ablated.items():
                    changes.setdefault(change, []).append(candidate)

    def among(self, layer: int, heads: Sequence[int]) -> Hooks:
        """Return hooks for only these heads of a layer; the patterns passed to the hooks contain only these heads."""
        part = copy(self)
        among = ((key, candidates) for key, candidates in self._changes[layer].items() if key[0] in heads)
        part._changes = {layer: {(heads.index(head), ablations): candidates for (head, ablations), candidates in among}}
        return part

    def fixed(self, layer: int) -> FixedRows | None:
        """Return the fixed rows of a layer, or None if an ablation there needs the model's patterns."""
        rows = {}
        for (head, ablations), candidates in self._changes[layer].items():
            fixed = self._cache.fixed(ablations)
            if fixed is None:
                return None
            rows.update(dict.fromkeys(((candidate, head) for candidate in candidates), fixed))
        return FixedRows(self._candidates, rows)

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """Return the changed patterns; unmodified rows stay the same to the bit."""
        if not self._changes[layer]:
            return pattern
        own = pattern.view(self._candidates, -1, *pattern.shape[2:])
        out = own.clone()
        for (head, ablations), candidates in self._changes[layer].items():
            at = slice(None) if len(candidates) == self._candidates else candidates
            out[at, :, head] = self._cache.changed(own[at, :, head], ablations)
        return out.reshape(pattern.shape)
