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

HEAD_WRITTEN = r"(?:L|layer )([1-9]\d{0,3})(?:\.H| head )([1-9]\d{0,3}):?"
"""A pattern of a head as text: `L3.H1` or `layer 3 head 1:`."""

_ROW_WRITTEN = re.compile(rf"{HEAD_WRITTEN} +(\S+)")
_WRITTEN = re.compile(rf"{HEAD_WRITTEN} +(\S+) +-> +(\S+)")

NamedPath = tuple[int, int, str, str]
"""A path as stored on disk: layer and head, counted from 1, and the names of the query and key roles."""


class HeadRow(NamedTuple):
    """One attention row: a layer, a head in that layer, and the role that attends, all numbered from 0.

    >>> HeadRow.parse("L3.H1 x0?", hs.RetrievalProblem(hops=3).roles)
    HeadRow(layer=2, head=0, query=6)
    """

    layer: int
    head: int
    query: int

    def describe(self, roles: Sequence[str]) -> str:
        """Return the row as text, counted from 1: `L3.H1 x0?`."""
        return f"L{self.layer + 1}.H{self.head + 1} {roles[self.query]}"

    @classmethod
    def parse(cls, text: str, roles: Sequence[str]) -> HeadRow:
        """Parse a row such as `L3.H1 x0?`; raise an `InputError` for any other form or a role not in `roles`."""
        found = _ROW_WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InputError(f"a row is written like 'L3.H1 x0?', with layers and heads from 1, got {text!r}")
        return cls(int(found[1]) - 1, int(found[2]) - 1, role_number(found[3], roles))


class AttentionPath(NamedTuple):
    """One attention path: a layer, a head, the role that attends and the role attended to, all numbered from 0.

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
        """The attention row that contains the path."""
        return HeadRow(self.layer, self.head, self.query)

    def names(self, roles: Sequence[str]) -> NamedPath:
        """Return the layer and the head, counted from 1, and the names of the two roles, as stored on disk."""
        return self.layer + 1, self.head + 1, roles[self.query], roles[self.key]

    def describe(self, roles: Sequence[str]) -> str:
        """Return the path as text, counted from 1: `layer 3 head 1: x0? -> >x2`."""
        layer, head, query, key = self.names(roles)
        return f"layer {layer} head {head}: {query} -> {key}"

    @classmethod
    def named(cls, layer: int, head: int, query: str, key: str, roles: Sequence[str]) -> AttentionPath:
        """Build a path from its names (inverse of `names`); raise an `InputError` for an invalid number or role."""
        if layer < 1 or head < 1:
            raise InputError(f"layers and heads of a path count from 1, got layer {layer}, head {head}")
        return cls(layer - 1, head - 1, role_number(query, roles), role_number(key, roles))

    @classmethod
    def parse(cls, text: str, roles: Sequence[str]) -> AttentionPath:
        """Parse `L3.H1 x0? -> >x2` or `layer 3 head 1: x0? -> >x2`; raise an `InputError` for any other text."""
        found = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InputError(
                "an attention path is written like 'L3.H1 x0? -> >x2' or 'layer 3 head 1: x0? -> >x2', "
                f"with layers and heads from 1, got {text!r}"
            )
        return cls.named(int(found[1]), int(found[2]), found[3], found[4], roles)


Into = Literal["query", "key", "value", "answer"]
"""What a path can feed: the query, key or value of a later path, or the answer itself."""


@dataclass(frozen=True)
class Feed:
    """One use of the information that a path carries.

    Attributes:
        into: what the path feeds.
        reader: the later path that reads the information; None if the answer does.
        change: how much the loss rises when this use alone is cut.
        attention: how much the reader's mean attention falls when this use is cut; 0 for a value or the answer.
    """

    into: Into
    reader: AttentionPath | None = None
    change: float = 0.0
    attention: float = 0.0

    def describe(self, roles: Sequence[str]) -> str:
        """Return the use as text: `K of layer 5 (x0? -> >x1)`, or `the answer`."""
        if self.reader is None:
            return "the answer"
        layer, _, query, key = self.reader.names(roles)
        return f"{self.into[0].upper()} of layer {layer} ({query} -> {key})"


@dataclass(frozen=True)
class PathGroup:
    """A group of redundant paths in a circuit, of which only `needs` are necessary.

        >>> paths = [hs.AttentionPath.parse(f"L{layer}.H1 x0? -> >x1", ["x0>", ">x1", "x0?"]) for layer in (2, 3)]
        >>> hs.PathGroup(tuple(paths)).needs
        1

    Raises:
        InputError: there are fewer than two paths, a path occurs twice, or `needs` is not from 1 to their number - 1.
    """

    paths: tuple[AttentionPath, ...]
    needs: int = 1

    def __post_init__(self) -> None:
        whole = isinstance(self.needs, int)
        if not whole or len(set(self.paths)) < len(self.paths) or not 1 <= self.needs < len(self.paths):
            raise InputError(
                "a group has at least two different paths, and needs at least one of them but not all, got "
                f"{len(self.paths)} paths and needs={self.needs}"
            )
