"""What the five formulations have in common: random draws, a random structure, its lines, a question, and guessers."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.problem.text.extensions import Extensions, LineOrder

PAPER_CHAINS = 4
MOST_LINES = 250_000
"""The most lines of a prompt: more than any model reads, yet drawn in seconds."""
THINK = "Think step by step, then write only the answer on the last line."

T = TypeVar("T")


def digest(*address: str | int) -> str:
    """The SHA-256 of an address, in hexadecimal. Parts are joined by a character that none of them may contain."""
    return hashlib.sha256("\x1f".join(str(part) for part in address).encode()).hexdigest()


class Draw:
    """The stream of random numbers at one address, whatever was drawn before at others.

    Only `random.Random.random` is used, the one method whose numbers Python promises to keep from version to version,
    so that a question drawn today is the question drawn in ten years.
    """

    def __init__(self, *address: str | int) -> None:
        self._next = random.Random(int(digest(*address)[:32], 16)).random

    def uniform(self) -> float:
        """A uniform number in [0, 1)."""
        return self._next()

    def below(self, count: int) -> int:
        """A uniform whole number in [0, count)."""
        return int(self._next() * count)

    def permutation(self, count: int) -> tuple[int, ...]:
        """A uniform permutation of 0 ... count - 1 (Fisher and Yates)."""
        values = list(range(count))
        for last in range(count - 1, 0, -1):
            other = int(self._next() * (last + 1))
            values[last], values[other] = values[other], values[last]
        return tuple(values)

    def some(self, values: Sequence[T], count: int) -> list[T]:
        """`count` of the `values` in random order, none twice."""
        return [values[i] for i in self.permutation(len(values))[:count]]


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


@dataclass(frozen=True)
class Latent:
    """The structure behind a question: what the text says, without its words.

    Attributes:
        order: the lines in the order of the text, each by its number in `Formulation.facts`.
    """

    order: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """The structure as plain values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


L = TypeVar("L", bound=Latent)


class Formulation(ABC, Generic[L]):
    """A way to write the retrieval problem as text.

    Attributes:
        name: its name on the command line; with `_` for `-`, its task name in evaluation harnesses.
        paper_hops: number of retrieval steps of the published question.
        instruction: the words by which the published question asks for nothing but the answer.
        allowed: names of the extensions that apply here.
    """

    name: ClassVar[str]
    paper_hops: ClassVar[int]
    instruction: ClassVar[str]
    allowed: ClassVar[frozenset[str]]

    @property
    def task(self) -> str:
        """The name as an identifier."""
        return self.name.replace("-", "_")

    def check(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse what cannot be written in this formulation.

        Raises:
            InputError: hops, chains or an extension does not fit.
        """
        if not isinstance(extensions, Extensions):
            raise InputError(f"extensions must be Extensions, as Extensions(shots=1), got {extensions!r}")
        for extension in extensions.changed():
            if extension not in self.allowed:
                fits = ", ".join(sorted(self.allowed))
                raise InputError(
                    f"{extension} does not apply to {self.name}, whose extensions are {fits}; leave it out"
                )
        for name, value in (("hops", hops), ("chains", chains)):
            check_count(name, value)
        self.check_size(hops, chains, extensions)
        lines = hops * chains * extensions.repeat * (1 + extensions.shots)
        if lines > MOST_LINES:
            raise InputError(
                f"a prompt may have {MOST_LINES:,} lines, hops times chains in every repeat and solved question, "
                f"got {lines:,}; ask for fewer"
            )

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size that this formulation does not allow; by default any but the published one."""
        sizes = (("hops", self.paper_hops, hops, "facts"), ("chains", PAPER_CHAINS, chains, "words"))
        for name, published, value, fixed in sizes:
            if value != published:
                raise InputError(
                    f"{name} is {published} for {self.name}, whose {fixed} are fixed, got {value}; leave it out"
                )

    @abstractmethod
    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> L:
        """A random structure, uniform over those the formulation admits."""

    @abstractmethod
    def facts(self, latent: L) -> list[Line]:
        """The lines, block by block, each block in the order of its symbols."""

    @abstractmethod
    def question(self, latent: L) -> Line:
        """The question, without the instruction."""

    @abstractmethod
    def answer(self, latent: L) -> str:
        """The one right answer."""

    @abstractmethod
    def acceptable(self, latent: L) -> tuple[str, ...]:
        """All answers that count as an answer, right or wrong, in ascending order."""

    @abstractmethod
    def asked(self, latent: L) -> tuple[int, ...]:
        """The lines that lead from the question to the answer, as numbered in `facts`, in that order."""

    @abstractmethod
    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Accuracy of the best guesser that leaves some lines unread, by what is left unread."""


def draw_order(draw: Draw, blocks: Sequence[int], shuffled: Sequence[bool], lines: LineOrder) -> tuple[int, ...]:
    """The order of numbered lines in the text.

    Args:
        draw: the question's random stream.
        blocks: number of lines in each block.
        shuffled: for each block, whether the paper shuffles it.
        lines: the order asked for.
    """
    standing: list[list[int]] = []
    first = 0
    for size, mixed in zip(blocks, shuffled, strict=True):
        standing.append([first + i for i in (draw.permutation(size) if mixed else range(size))])
        first += size
    if lines == "reversed":
        standing.reverse()
    flat = [line for block in standing for line in block]
    return tuple(draw.some(flat, len(flat))) if lines == "shuffled" else tuple(flat)
