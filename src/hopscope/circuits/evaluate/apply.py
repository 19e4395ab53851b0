"""Applies programs to attention patterns: the patterns of many candidates go in, the changed patterns come out.

Nearly every intervention is one formula, normalise(base x factor): `base` is the model's own pattern, that of another
example, the average of all examples, or 1 wherever a key is allowed; `factor` depends on the query's role and on the
key's relation to it. Only `alike` and `moved` compare a query's keys with each other (`chains`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from copy import copy
from functools import cached_property

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.chains import ChainsSeen, SharedKeys
from hopscope.circuits.evaluate.role_maps import Coordinates
from hopscope.errors import InputError
from hopscope.kernels.fused_attention import FixedRows
from hopscope.model.architecture import Architecture
from hopscope.model.fast import SkippingHooks
from hopscope.model.hooks import Hooks, Pattern
from hopscope.problem.paths import HeadRow

_OWN, _FIXED, _OTHER, _AVERAGE, _ALIKE, _MOVED = 1, 2, 3, 4, 5, 6
"""Codes for the base of a changed row: its own pattern, 1 wherever a key is allowed, another example's pattern, the
average of all examples' patterns, its own with chains alike, its own with keys moved. 0 means `keep`."""

_BASES = {
    AblationKind.KEEP: 0,
    AblationKind.KNOCK_OUT: _OWN,
    AblationKind.RESAMPLE: _OTHER,
    AblationKind.POSITIONAL: _AVERAGE,
    AblationKind.ALIKE: _ALIKE,
    AblationKind.MOVED: _MOVED,
}


MIXING = (AblationKind.RESAMPLE, AblationKind.POSITIONAL)
"""Interventions that use the patterns of other sequences, so that the whole batch must go through the model at once."""

HeadForms = tuple[tuple[int, Ablation], ...]
"""The forms of one head's rows: pairs of a query role and its form, by ascending role."""

LayerForms = dict[int, HeadForms]
"""The forms of one layer, by head; heads that are kept are left out."""

_DRAWN = 96
"""How many patterns a drawer keeps, each of some 4 x sequences x positions^2 bytes."""


class Drawer:
    """Makes the patterns of one batch that do not depend on the model, and keeps those used last."""

    def __init__(self, where: Coordinates) -> None:
        self.where = where
        self._allowed = where.allowed.float()
        self._factors: OrderedDict[HeadForms, Float[Tensor, "batch query key"]] = OrderedDict()
        self._shared: dict[tuple[int, ...], SharedKeys] = {}
        self._fixed: dict[HeadForms, tuple[UInt8[Tensor, "batch query"], Float[Tensor, "batch query key"]]] = {}

    @cached_property
    def _chains(self) -> ChainsSeen:
        return ChainsSeen(self.where)

    def factor(self, forms: HeadForms) -> Float[Tensor, "batch query key"]:
        """What multiplies the base at every query and key: 0 where not allowed, equal over all other keys if not named.

        Rows sum to 1, unless one of the forms starts from the model's own pattern.
        """
        if forms in self._factors:
            self._factors.move_to_end(forms)
            return self._factors[forms]
        where = self.where
        table = torch.ones(where.roles, 2 * where.roles, device=where.role.device)
        for query, form in forms:
            table[query] = factors(form, query, where.roles)
        drawn = table[where.role[..., None], where.relation] * self._allowed
        if not any(_BASES.get(form.kind, _FIXED) == _OWN for _, form in forms):
            total = drawn.sum(dim=-1, keepdim=True)
            drawn = drawn / torch.where(total > 0, total, 1.0)
        self._factors[forms] = drawn
        if len(self._factors) > _DRAWN:
            longest_unused, _ = self._factors.popitem(last=False)
            self._fixed.pop(longest_unused, None)
        return drawn

    def fixed(self, forms: HeadForms) -> tuple[UInt8[Tensor, "batch query"], Float[Tensor, "batch query key"]] | None:
        """Which queries get a fixed pattern, and which one; None if a changed row depends on the model's patterns."""
        if any(_BASES.get(form.kind, _FIXED) != _FIXED for _, form in forms):
            return None
        known = self._fixed.get(forms)
        if known is None:
            known = (self.base(forms)[..., 0] == _FIXED).to(torch.uint8), self.factor(forms).contiguous()
            self._fixed[forms] = known
        self._factors.move_to_end(forms)
        return known

    def base(self, forms: HeadForms) -> Int[Tensor, "batch query 1"]:
        """The base of every query, as one of the codes above."""
        table = torch.zeros(self.where.roles, dtype=torch.int64)
        for query, form in forms:
            table[query] = _BASES.get(form.kind, _FIXED)
        return table.to(self.where.role.device)[self.where.role][..., None]

    def own(self, pattern: Float[Tensor, "*any query key"], forms: HeadForms) -> Float[Tensor, "*any query key"]:
        """The model's pattern times the factor, scaled to sum to 1.

        A row in which nothing is left gets the factor itself, or all weight on its own position if that is 0 too.
        """
        queries = pattern.shape[-2]
        factor = self.factor(forms)[:, -queries:]
        itself = torch.eye(factor.shape[-1], device=factor.device)[-queries:]
        rest = torch.where(factor.sum(dim=-1, keepdim=True) > 0, factor, itself)
        raw = pattern * factor
        raw = torch.where(raw.sum(dim=-1, keepdim=True) < 1e-6, rest, raw)
        return raw / raw.sum(dim=-1, keepdim=True)

    def alike(
        self, pattern: Float[Tensor, "any batch query key"], forms: HeadForms
    ) -> Float[Tensor, "any batch query key"]:
        """The model's pattern, with all chains alike where the forms say so."""
        queries = tuple(query for query, form in forms if form.kind is AblationKind.ALIKE)
        if queries not in self._shared:
            self._shared[queries] = self._chains.shared(dict.fromkeys(queries, ()))
        return self._chains.alike(pattern, self._shared[queries])

    def moved(
        self, pattern: Float[Tensor, "any batch query key"], forms: HeadForms
    ) -> Float[Tensor, "any batch query key"]:
        """The model's pattern, with keys moved to other chains where the forms say so."""
        return self._chains.moved(
            pattern, {query: form.keys for query, form in forms if form.kind is AblationKind.MOVED}
        )


class _Layer:
    """What C programs do to one layer.

    Args:
        forms: for every program, this layer's forms by head.
        heads: how many heads the layer has.
        drawer: the drawer of the batch that will come through.
    """

    def __init__(self, forms: Sequence[LayerForms], heads: int, drawer: Drawer) -> None:
        self._drawer = drawer
        self._variants: list[dict[HeadForms, list[int]]] = []
        for head in range(heads):
            variants: dict[HeadForms, list[int]] = {}
            for candidate, by_head in enumerate(forms):
                variants.setdefault(by_head.get(head, ()), []).append(candidate)
            self._variants.append(variants)
        self._candidates = len(forms)
        self._active = any(by_head for by_head in forms)

    def __call__(
        self, pattern: Float[Tensor, "candidate batch head query key"]
    ) -> Float[Tensor, "candidate batch head query key"]:
        """The changed pattern. Queries are the last positions of the sequence; kept rows stay the same to the bit."""
        if not self._active:
            return pattern
        out = pattern.clone()
        for head, variants in enumerate(self._variants):
            for forms, candidates in variants.items():
                if forms:
                    at = slice(None) if len(candidates) == self._candidates else candidates
                    out[at, :, head] = self._changed(pattern[at, :, head], forms)
        return out

    def among(self, heads: Sequence[int]) -> _Layer:
        """The same of some heads alone."""
        some = copy(self)
        some._variants = [self._variants[head] for head in heads]
        return some

    def fixed(self) -> FixedRows | None:
        """All that the programs put in place; None if any of it depends on the model's own patterns."""
        rows = {}
        for head, variants in enumerate(self._variants):
            for forms, candidates in variants.items():
                if forms:
                    fixed = self._drawer.fixed(forms)
                    if fixed is None:
                        return None
                    rows.update(dict.fromkeys(((candidate, head) for candidate in candidates), fixed))
        return FixedRows(self._candidates, rows)

    def _changed(
        self, pattern: Float[Tensor, "candidate batch query key"], forms: HeadForms
    ) -> Float[Tensor, "*candidate batch query key"]:
        """One head's pattern under the forms of its rows."""
        drawer, queries = self._drawer, pattern.shape[-2]
        used = {_BASES.get(form.kind, _FIXED) for _, form in forms}
        every = len(forms) == drawer.where.roles
        changed = drawer.factor(forms)[:, -queries:]
        if every and used == {_FIXED}:
            return changed
        base = drawer.base(forms)[:, -queries:]
        changed = torch.where(base == 0, pattern, changed)
        if _OWN in used:
            fixed = tuple((query, form) for query, form in forms if _BASES.get(form.kind, _FIXED) == _FIXED)
            changed = torch.where(base == _FIXED, drawer.factor(fixed)[:, -queries:], changed)
            changed = torch.where(base == _OWN, drawer.own(pattern, forms), changed)
        if _ALIKE in used:
            changed = torch.where(base == _ALIKE, drawer.alike(pattern, forms), changed)
        if _MOVED in used:
            changed = torch.where(base == _MOVED, drawer.moved(pattern, forms), changed)
        if _OTHER in used:
            changed = torch.where(base == _OTHER, pattern.roll(-1, dims=-3), changed)
        if _AVERAGE in used:
            changed = torch.where(base == _AVERAGE, pattern.mean(dim=-3, keepdim=True), changed)
        return changed


def factors(form: Ablation, query: int, roles: int) -> Float[Tensor, " relation"]:
    """The weight that a form puts on every relation, up to scale."""
    factor = torch.zeros(2 * roles)
    if form.kind is AblationKind.IDENTITY:
        factor[query] = 1.0
    elif form.kind is AblationKind.ONE_HOT:
        factor[form.keys[0]] = 1.0
    elif form.kind is AblationKind.ZERO:
        pass
    elif form.kind is AblationKind.MIXTURE:
        factor[list(form.keys)] = torch.tensor(form.weights)
    elif form.kind is AblationKind.MEAN:
        factor[:] = torch.tensor(form.weights)
    else:  # uniform; and the model's own patterns, of which a knock-out takes some away
        factor[:] = 1.0
        factor[list(form.keys)] = 0.0
    return factor


def by_layer(
    program: Interventions, layers: int, skipped: Collection[tuple[int, int]] = frozenset()
) -> list[LayerForms]:
    """A program's forms, layer by layer and head by head; rows that are kept, or of a skipped head, are left out."""
    split: list[dict[int, list[tuple[int, Ablation]]]] = [{} for _ in range(layers)]
    for row, form in program.items():
        if form.kind is not AblationKind.KEEP and (row.layer, row.head) not in skipped:
            split[row.layer].setdefault(row.head, []).append((row.query, form))
    # Query roles of one head are all different, so forms are never compared.
    return [{head: tuple(sorted(rows)) for head, rows in heads.items()} for heads in split]


class ProgramEdit(SkippingHooks):
    """Programs as an edit of a transformer's forward pass.

    Args:
        programs: C programs, layer by layer, as `by_layer` gives them. Sequences come through program by program: all
            sequences of the batch under the first, then all under the second, and so on.
        heads: how many heads a layer has.
        drawer: the drawer of the batch.
    """

    def __init__(self, programs: Sequence[Sequence[LayerForms]], heads: int, drawer: Drawer) -> None:
        self._layers = dict(enumerate(_Layer(forms, heads, drawer) for forms in zip(*programs, strict=True)))
        self._candidates = len(programs)

    def among(self, layer: int, heads: Sequence[int]) -> Hooks:
        """What the programs do to some heads of a layer."""
        some = copy(self)
        some._layers = {layer: self._layers[layer].among(heads)}
        return some

    def fixed(self, layer: int) -> FixedRows | None:
        """What the programs put in place, if that is all they do; else None."""
        return self._layers[layer].fixed()

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The patterns under the programs; rows that are kept stay the same to the bit."""
        by_program = pattern.view(self._candidates, -1, *pattern.shape[2:])
        return self._layers[layer](by_program).reshape(pattern.shape)


def check(program: Interventions, where: Coordinates, shape: Architecture) -> None:
    """Check that a program fits the model and the batch.

    Raises:
        InputError: a row does not exist, a key is no role or one that the query may not attend to, or the number of
            weights is wrong.
    """
    roles = where.roles
    for row, form in program.items():
        check_row(row, shape, roles)
        if any(not 0 <= key < roles for key in form.keys):
            raise InputError(f"{form.kind.value} needs roles from 0 to {roles - 1}, got {form.keys}")
        if form.kind is AblationKind.MEAN and len(form.weights) != 2 * roles:
            raise InputError(f"mean needs {2 * roles} weights, one a relation, got {len(form.weights)}")
        if form.kind in (AblationKind.ONE_HOT, AblationKind.MIXTURE):
            hidden = next((key for key in form.keys if not where.visible[row.query, key]), None)
            if hidden is not None:
                raise InputError(f"role {row.query} may not attend to role {hidden}: the mask hides it")


def check_row(row: HeadRow, shape: Architecture, roles: int) -> None:
    """Check that a row exists.

    Raises:
        InputError: the row does not exist.
    """
    for name, value, count in (
        ("layer", row.layer, shape.layers),
        ("head", row.head, shape.heads),
        ("query role", row.query, roles),
    ):
        if not 0 <= value < count:
            raise InputError(f"{name} must be from 0 to {count - 1}, got {value}")
