"""The attention path: in one head, the positions of one role attend to those of another role of their chain.

In code, everything counts from 0 and roles are numbers (`problem.roles`). Text for people and records on disk count
layers and heads from 1 and name the roles; `describe`, `names`, `named` and `parse` convert between the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hopscope.errors import InputError
from hopscope.problem.roles import role_number

_NUMBER = r"([1-9]\d{0,3})"
_ROW_WRITTEN = re.compile(rf"L{_NUMBER}\.H{_NUMBER} +(\S+)")
_WRITTEN = re.compile(rf"(?:L{_NUMBER}\.H{_NUMBER}|layer {_NUMBER} head {_NUMBER}:) +(\S+) +-> +(\S+)")

NamedPath = tuple[int, int, str, str]
"""A path as records on disk have it: layer and head from 1, query and key role by name."""


class HeadRow(NamedTuple):
    """One row of attention: a layer, a head in it, and the number of the role that attends, all from 0."""

    layer: int
    head: int
    query: int

    def describe(self, roles: Sequence[str]) -> str:
        """The row in words, counted from 1: `L3.H1 x0?`."""
        return f"L{self.layer + 1}.H{self.head + 1} {roles[self.query]}"

    @classmethod
    def parse(cls, text: str, roles: Sequence[str]) -> HeadRow:
        """The row written `L3.H1 x0?`; an `InputError` if the text has another form, or a role not in `roles`."""
        found = _ROW_WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InputError(f"a row is written like 'L3.H1 x0?', got {text!r}")
        return cls(int(found[1]) - 1, int(found[2]) - 1, role_number(found[3], roles))


class AttentionPath(NamedTuple):
    """One attention path: a layer, a head in it, and the roles that attend and are attended to, all from 0.

    Example:
        >>> roles = hs.RetrievalProblem(hops=3).roles
        >>> path = AttentionPath.parse("L3.H1 x0? -> >x2", roles)
        >>> path
        AttentionPath(layer=2, head=0, query=6, key=3)
        >>> path.describe(roles)
        'layer 3 head 1: x0? -> >x2'
        >>> AttentionPath.parse(path.describe(roles), roles) == path
        True
    """

    layer: int
    head: int
    query: int
    key: int

    @property
    def row(self) -> HeadRow:
        """The row of attention that the path is in."""
        return HeadRow(self.layer, self.head, self.query)

    def names(self, roles: Sequence[str]) -> NamedPath:
        """Layer and head from 1, and the two roles by name, as in records on disk."""
        return self.layer + 1, self.head + 1, roles[self.query], roles[self.key]

    def describe(self, roles: Sequence[str]) -> str:
        """The path in words, counted from 1: `layer 3 head 1: x0? -> >x2`."""
        layer, head, query, key = self.names(roles)
        return f"layer {layer} head {head}: {query} -> {key}"

    @classmethod
    def named(cls, layer: int, head: int, query: str, key: str, roles: Sequence[str]) -> AttentionPath:
        """The path of a record: the inverse of `names`; an `InputError` if there is no such path."""
        if layer < 1 or head < 1:
            raise InputError(f"layers and heads of a path count from 1, got layer {layer}, head {head}")
        return cls(layer - 1, head - 1, role_number(query, roles), role_number(key, roles))

    @classmethod
    def parse(cls, text: str, roles: Sequence[str]) -> AttentionPath:
        """The path written `L3.H1 x0? -> >x2` or `layer 3 head 1: x0? -> >x2`; an `InputError` if it is neither."""
        found = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InputError(
                f"an attention path is written like 'L3.H1 x0? -> >x2' or 'layer 3 head 1: x0? -> >x2', got {text!r}"
            )
        layer, head, query, key = (group for group in found.groups() if group is not None)
        return cls.named(int(layer), int(head), query, key, roles)


Into = Literal["query", "key", "value", "answer"]
"""What a path can feed: the query, key or value of a later path, or the answer itself."""


@dataclass(frozen=True)
class Feed:
    """One use of what a path carries: what it feeds, and the later path that reads it (None for the answer).

    Attributes:
        change: how much the loss rises when this use alone is cut.
        attention: how much the reader's mean attention falls then; 0 for a value or the answer.
    """

    into: Into
    reader: AttentionPath | None = None
    change: float = 0.0
    attention: float = 0.0

    def describe(self, roles: Sequence[str]) -> str:
        """The use in words: `K of layer 5 (x0? -> >x1)`, or `the answer`."""
        if self.reader is None:
            return "the answer"
        layer, _, query, key = self.reader.names(roles)
        return f"{self.into[0].upper()} of layer {layer} ({query} -> {key})"


@dataclass(frozen=True)
class PathGroup:
    """Redundant paths of a circuit, `needs` of which suffice.

        >>> paths = [hs.AttentionPath.parse(f"L{layer}.H1 x0? -> >x1", ["x0>", ">x1", "x0?"]) for layer in (2, 3)]
        >>> hs.PathGroup(tuple(paths)).needs
        1

    Raises:
        InputError: fewer than two paths, a path twice, or no number of them from 1 to one fewer than all.
    """

    paths: tuple[AttentionPath, ...]
    needs: int = 1

    def __post_init__(self) -> None:
        if len(set(self.paths)) < len(self.paths) or not 1 <= self.needs < len(self.paths):
            raise InputError(
                "a group is of at least two different paths and needs at least one of them, and not all, got "
                f"{len(self.paths)} paths and needs={self.needs}"
            )
