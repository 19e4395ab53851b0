"""A line of a prompt with its roles: which of its words is which symbol of which chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Line(NamedTuple):
    """A fact or a question, in pieces.

    Attributes:
        pieces: the text, cut so that every symbol is a piece of its own.
        roles: for every piece its role, or None for the words around the symbols. In a chain, `x{k-1}>` and `>x{k}`
            are the members of pair k and `x0?` is the query (`hopscope.problem.roles`); conditional formulations
            name the symbol itself: `person>` is what is looked up, `>job` what is found, `person?` the query.
        lookup: the look-up that reads this line, counted from 1 at the question; 0 for the question.
        chain: the chain that the line belongs to, by the number of the symbol that asks for it; None where it is not
            part of a single chain.
    """

    pieces: tuple[str, ...]
    roles: tuple[str | None, ...]
    lookup: int
    chain: int | None

    @property
    def text(self) -> str:
        """The line, without its line break."""
        return "".join(self.pieces)


class Mention(NamedTuple):
    """A symbol in the prompt: its characters `start` to `end` (end excluded), in line `line` (counted from 1)."""

    start: int
    end: int
    line: int
    role: str
    lookup: int
    chain: int | None


def mentions(lines: Iterable[Line], start: int = 0) -> Iterator[Mention]:
    """Every symbol of lines that follow one another, separated by line breaks, from character `start` on."""
    for number, line in enumerate(lines, start=1):
        for piece, role in zip(line.pieces, line.roles, strict=True):
            if role is not None:
                yield Mention(start, start + len(piece), number, role, line.lookup, line.chain)
            start += len(piece)
        start += 1
