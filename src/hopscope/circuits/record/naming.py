"""Paths as records have them: layer and head from 1, roles by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.records import convert, plain

_NAMES = ("layer", "head", "query", "key")


@dataclass(frozen=True)
class _Names:
    """A path as records have it; all fields are None where there is no path."""

    layer: int | None = None
    head: int | None = None
    query: str | None = None
    key: str | None = None

    def path(self, roles: Sequence[str]) -> AttentionPath | None:
        """The path that these names give; None where there is none."""
        if self.layer is None or self.head is None or self.query is None or self.key is None:
            if self != _Names():
                raise InputError(f"a path needs layer, head, query and key, got {plain(self)}")
            return None
        return AttentionPath.named(self.layer, self.head, self.query, self.key, roles)


def named(fields: dict[str, Any], name: str, roles: Sequence[str]) -> dict[str, Any]:
    """The fields of an object, with layer, head, query and key in place of its field `name`, which is a path."""
    path = fields[name]
    names = AttentionPath(*path).names(roles) if path else (None,) * 4
    rest = {other: value for other, value in fields.items() if other != name}
    return dict(zip(_NAMES, names, strict=True)) | rest


def numbered(fields: Any, name: str, roles: Sequence[str], what: str) -> dict[str, Any]:
    """The inverse of `named`."""
    given = convert(fields, dict[str, Any], what)
    names = convert({key: value for key, value in given.items() if key in _NAMES}, _Names, what)
    return {name: names.path(roles)} | {key: value for key, value in given.items() if key not in _NAMES}
