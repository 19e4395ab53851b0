"""Programs at work: attention patterns of many candidates in, changed patterns out.

Every intervention is one formula, normalise(base x factor): `base` is the model's own pattern, that of another
example, or 1 wherever a key is allowed; `factor` depends on the query's role and on how the key stands to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.circuits.coordinates import Coordinates
from hopscope.circuits.interventions import KEEP, Edit, Intervention, Program, Row
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Pattern, PatternFn

_OWN, _FIXED, _OTHER, _AVERAGE = 1, 2, 3, 4
"""What a changed row's base is: its own pattern, 1 wherever allowed, another example's pattern, the average of all
examples' patterns. 0 is `keep`."""

_BASES = {
    Intervention.KEEP: 0,
    Intervention.KNOCK_OUT: _OWN,
    Intervention.RESAMPLE: _OTHER,
    Intervention.POSITIONAL: _AVERAGE,
}


HeadEdits = tuple[tuple[int, Edit], ...]
"""The edits of one head's rows: query roles, ascending, with what is put there."""

LayerEdits = dict[int, HeadEdits]
"""The edits of one layer by head; heads that are kept left out."""

_DRAWN = 96
"""Patterns kept by a drawer, of some 4 x sequences x positions^2 bytes each."""


class Drawer:
    """Patterns of one batch that do not depend on the model, each drawn once."""

    def __init__(self, where: Coordinates) -> None:
        self.where = where
        self._allowed = where.allowed.float()
        self._factors: OrderedDict[HeadEdits, Float[Tensor, "batch query key"]] = OrderedDict()

    def factor(self, edits: HeadEdits) -> Float[Tensor, "batch query key"]:
        """What multiplies the base at every query and key: 0 where not allowed, 1 in rows not named."""
        if edits in self._factors:
            self._factors.move_to_end(edits)
            return self._factors[edits]
        where = self.where
        table = torch.ones(where.roles, 2 * where.roles, device=where.role.device)
        for query, edit in edits:
            table[query] = factors(edit, query, where.roles)
        drawn = table[where.role[..., None], where.relation] * self._allowed
        if not any(_BASES.get(edit.kind, _FIXED) == _OWN for _, edit in edits):
            drawn = drawn / drawn.sum(dim=-1, keepdim=True)
        self._factors[edits] = drawn
        if len(self._factors) > _DRAWN:
            self._factors.popitem(last=False)
        return drawn

    def base(self, edits: HeadEdits) -> Int[Tensor, "batch query 1"]:
        """What the base of every query is: one of the codes above."""
        table = torch.zeros(self.where.roles, dtype=torch.int64)
        for query, edit in edits:
            table[query] = _BASES.get(edit.kind, _FIXED)
        return table.to(self.where.role.device)[self.where.role][..., None]

    def own(self, pattern: Float[Tensor, "*any query key"], edits: HeadEdits) -> Float[Tensor, "*any query key"]:
        """The model's pattern times the factor, to sum 1; where nothing is left, what the factor leaves, or oneself."""
        queries = pattern.shape[-2]
        factor = self.factor(edits)[:, -queries:]
        itself = torch.eye(factor.shape[-1], device=factor.device)[-queries:]
        rest = torch.where(factor.sum(dim=-1, keepdim=True) > 0, factor, itself)
        raw = pattern * factor
        raw = torch.where(raw.sum(dim=-1, keepdim=True) < 1e-6, rest, raw)
        return raw / raw.sum(dim=-1, keepdim=True)


class LayerEdit:
    """What C programs do to one layer.

    Args:
        edits: for every program, this layer's edits by head.
        heads: of the layer.
        drawer: of the batch that will come through.
    """

    def __init__(self, edits: Sequence[LayerEdits], heads: int, drawer: Drawer) -> None:
        self._drawer = drawer
        self._variants: list[dict[HeadEdits, list[int]]] = []
        for head in range(heads):
            variants: dict[HeadEdits, list[int]] = {}
            for candidate, by_head in enumerate(edits):
                variants.setdefault(by_head.get(head, ()), []).append(candidate)
            self._variants.append(variants)
        self._candidates = len(edits)
        self.active = any(by_head for by_head in edits)

    def __call__(
        self, pattern: Float[Tensor, "candidate batch head query key"]
    ) -> Float[Tensor, "candidate batch head query key"]:
        """The changed pattern. Queries are the last positions of the sequence; kept rows keep their bits."""
        if not self.active:
            return pattern
        out = pattern.clone()
        for head, variants in enumerate(self._variants):
            for edits, candidates in variants.items():
                if edits:
                    at = slice(None) if len(candidates) == self._candidates else candidates
                    out[at, :, head] = self._changed(pattern[at, :, head], edits)
        return out

    def _changed(
        self, pattern: Float[Tensor, "candidate batch query key"], edits: HeadEdits
    ) -> Float[Tensor, "*candidate batch query key"]:
        """One head's pattern under the edits of its rows."""
        drawer, queries = self._drawer, pattern.shape[-2]
        used = {_BASES.get(edit.kind, _FIXED) for _, edit in edits}
        every = len(edits) == drawer.where.roles
        changed = drawer.factor(edits)[:, -queries:]
        if every and used == {_FIXED}:
            return changed
        base = drawer.base(edits)[:, -queries:]
        changed = torch.where(base == 0, pattern, changed)
        if _OWN in used:
            fixed = tuple((query, edit) for query, edit in edits if _BASES.get(edit.kind, _FIXED) == _FIXED)
            changed = torch.where(base == _FIXED, drawer.factor(fixed)[:, -queries:], changed)
            changed = torch.where(base == _OWN, drawer.own(pattern, edits), changed)
        if _OTHER in used:
            changed = torch.where(base == _OTHER, pattern.roll(-1, dims=-3), changed)
        if _AVERAGE in used:
            changed = torch.where(base == _AVERAGE, pattern.mean(dim=-3, keepdim=True), changed)
        return changed


def factors(edit: Edit, query: int, roles: int) -> Float[Tensor, " relation"]:
    """What an edit puts on every relation, up to scale."""
    factor = torch.zeros(2 * roles)
    if edit.kind is Intervention.IDENTITY:
        factor[query] = 1.0
    elif edit.kind is Intervention.ONE_HOT:
        factor[edit.keys[0]] = 1.0
    elif edit.kind is Intervention.MIXTURE:
        factor[list(edit.keys)] = torch.tensor(edit.weights)
    elif edit.kind is Intervention.MEAN:
        factor[:] = torch.tensor(edit.weights)
    else:  # uniform; and the model's own patterns, of which a knock-out takes some away
        factor[:] = 1.0
        factor[list(edit.keys)] = 0.0
    return factor


def by_layer(program: Program, layers: int) -> list[LayerEdits]:
    """A program's edits, layer by layer and head by head; rows that are kept left out."""
    split: list[dict[int, list[tuple[int, Edit]]]] = [{} for _ in range(layers)]
    for row, edit in program.items():
        if edit is not KEEP and edit != KEEP:
            split[row.layer].setdefault(row.head, []).append((row.query, edit))
    # Query roles of one head are all different, so edits are never compared.
    return [{head: tuple(sorted(rows)) for head, rows in heads.items()} for heads in split]


def pattern_fn(program: Program, where: Coordinates, shape: Architecture) -> PatternFn:
    """A program as a `pattern_fn`, for transformers of any number of models that all see the batch of `where`.

    Raises:
        InputError: the program does not fit the architecture, or looks where the mask forbids.
    """
    check(program, where, shape)
    drawer = Drawer(where)
    edits = [LayerEdit([rows], shape.heads, drawer) for rows in by_layer(program, shape.layers)]

    def edit(layer: int, pattern: Pattern) -> Pattern:
        return edits[layer](pattern)

    return edit


def check(program: Program, where: Coordinates, shape: Architecture) -> None:
    """See that a program fits.

    Raises:
        InputError: a row that is not there, a key that is no role or that a query may not attend to, or a wrong number
            of weights.
    """
    roles = where.roles
    for row, edit in program.items():
        check_row(row, shape, roles)
        if any(not 0 <= key < roles for key in edit.keys):
            raise InputError(f"{edit.kind.value} needs roles from 0 to {roles - 1}, got {edit.keys}")
        if edit.kind is Intervention.MEAN and len(edit.weights) != 2 * roles:
            raise InputError(f"mean needs {2 * roles} weights, one a relation, got {len(edit.weights)}")
        if edit.kind in (Intervention.ONE_HOT, Intervention.MIXTURE):
            hidden = _hidden(row.query, edit.keys, where)
            if hidden is not None:
                raise InputError(f"role {row.query} may not attend to role {hidden}: the mask hides it")


def check_row(row: Row, shape: Architecture, roles: int) -> None:
    """See that a row exists.

    Raises:
        InputError: it does not.
    """
    for name, value, count in (
        ("layer", row.layer, shape.layers),
        ("head", row.head, shape.heads),
        ("query role", row.query, roles),
    ):
        if not 0 <= value < count:
            raise InputError(f"{name} must be from 0 to {count - 1}, got {value}")


def _hidden(query: int, keys: Sequence[int], where: Coordinates) -> int | None:
    """A key role that a query of this role may not attend to, if there is one."""
    place: Int[Tensor, "batch chain role"] = where.place[:1, :1]
    for key in keys:
        if not where.allowed[place[0, 0, query], place[0, 0, key]]:
            return key
    return None
