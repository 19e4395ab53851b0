"""Paths, rows and heads of a model, as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import role_number

PlaceInModel = str | AttentionPath | HeadRow
"""`L3.H1` (a head), `L3.H1 x0?` (the row of a query role), `L3.H1 x0? -> >x2` or `layer 3 head 1: x0? -> >x2` (a path),
layers and heads counted from 1; or the typed value."""

_WRITTEN = re.compile(r"L([1-9]\d{0,3})\.H([1-9]\d{0,3})(?: +(\S+))?")

_RULE = "a place is written like L3.H1, 'L3.H1 x0?' or 'L3.H1 x0? -> >x2'"


def rows_at(
    place: PlaceInModel, roles: Sequence[str], shape: Architecture
) -> tuple[list[HeadRow], AttentionPath | None]:
    """The rows at a place, and the path if the place is one.

    Args:
        place: the place.
        roles: names of the roles that query and key may have.
        shape: the shape of the model.

    Raises:
        InputError: it is no place, or the model has no such head or role.
    """
    if isinstance(place, AttentionPath) or (isinstance(place, str) and "->" in place):
        path = place if isinstance(place, AttentionPath) else AttentionPath.parse(place, roles)
        _check(path.layer, path.head, shape)
        for name, at in (("query", path.query), ("key", path.key)):
            if not 0 <= at < len(roles):
                raise InputError(f"the {name} of a path must be a role from 0 to {len(roles) - 1}, got {at}")
        return [path.row], path
    if isinstance(place, HeadRow):
        return [place], None
    if not isinstance(place, str):
        raise InputError(f"{_RULE}, or is an AttentionPath or a Row, got {place!r}")
    found = _WRITTEN.fullmatch(place.strip())
    if found is None:
        raise InputError(f"{_RULE}, got {place!r}")
    layer, head, role = int(found[1]) - 1, int(found[2]) - 1, found[3]
    _check(layer, head, shape)
    queries = range(len(roles)) if role is None else [role_number(role, roles)]
    return [HeadRow(layer, head, query) for query in queries], None


def _check(layer: int, head: int, shape: Architecture) -> None:
    """Check that a model has a layer and a head (from 0 here); the error message counts from 1, as people do."""
    for name, number, count in (("layer", layer, shape.layers), ("head", head, shape.heads)):
        if not 0 <= number < count:
            raise InputError(f"{name} must be from 1 to {count}, got {number + 1}")
