"""The structure of the three chain formulations: levels of symbols, each a bijection onto the level before; names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice, product

from hopscope.errors import InputError
from hopscope.problem.roles import role_names
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import PAPER_CHAINS, Draw, Formulation, Latent, Line, draw_order

Words = Sequence[Sequence[str]]
Pieces = tuple[tuple[str, ...], tuple[str | None, ...]]
"""The pieces of a line and their roles, as in `Line`."""


@dataclass(frozen=True)
class Chains(Latent):
    """Chains of D hops. Level 0 holds the final values xD, level D the symbols x0 that a question can ask for.

    Attributes:
        words: the symbols of levels 0 ... D.
        links: for each symbol of levels 1 ... D, the symbol of the level before that it leads to.
        asked: the symbol of level D that the question names.
    """

    words: tuple[tuple[str, ...], ...]
    links: tuple[tuple[int, ...], ...]
    asked: int

    def path(self, start: int) -> list[int]:
        """The symbols from `start` of level D down to level 0, one per level."""
        symbols = [start]
        for link in reversed(self.links):
            symbols.append(link[symbols[-1]])
        return symbols


class ChainFormulation(Formulation[Chains]):
    """A formulation in which every fact links a symbol to one of the level before."""

    def check_published(self, hops: int, chains: int, extensions: Extensions, most: int, because: str) -> None:
        """Refuse a size for which the published names do not suffice, unless there are others.

        Args:
            hops, chains: the size asked for.
            extensions: whether other names may be used.
            most: the largest number of hops.
            because: the published names, in words.
        """
        if extensions.names != "paper":
            return
        if chains != PAPER_CHAINS:
            raise InputError(f'chains must be 4 in the paper\'s format, got {chains}; pass names="extended"')
        if hops > most:
            raise InputError(
                f"hops must be 1..{most} for {self.name} in the paper's format ({because}), got {hops}; "
                'pass names="extended"'
            )

    @abstractmethod
    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """The symbols of levels 0 ... D."""

    @abstractmethod
    def fact(self, level: int, first: str, second: str, roles: tuple[str, str]) -> Pieces:
        """A line as pieces and their roles: `first` of this level leads to `second` of the level before."""

    @abstractmethod
    def ask(self, symbol: str, role: str) -> Pieces:
        """The question as pieces and their roles."""

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Chains:
        """Draw independent uniform bijections, orders of lines and query."""
        links = tuple(draw.permutation(chains) for _ in range(hops))
        if extensions.links == "fixed":
            links = (tuple(range(chains)),) * hops
        asked = draw.below(chains)
        order = draw_order(draw, [chains] * hops, [True] * hops, extensions.lines)
        words = tuple(tuple(level) for level in self.words(hops, chains, extensions, draw))
        return Chains(order, words, links, asked)

    def facts(self, latent: Chains) -> list[Line]:
        """The lines of levels 1 ... D; a line of level r is pair D - r + 1."""
        hops, chains = len(latent.links), len(latent.links[0])
        names = role_names(hops)
        owner = _owners(latent)
        lines = []
        for level in range(1, hops + 1):
            pair = hops - level + 1
            roles = (names[2 * pair - 2], names[2 * pair - 1])
            here, before, link = latent.words[level], latent.words[level - 1], latent.links[level - 1]
            for i in range(chains):
                lines.append(Line(*self.fact(level, here[i], before[link[i]], roles), pair, owner[level][i]))
        return lines

    def question(self, latent: Chains) -> Line:
        """The question where the asked symbol of level D leads."""
        return Line(*self.ask(latent.words[-1][latent.asked], "x0?"), 0, latent.asked)

    def answer(self, latent: Chains) -> str:
        """The symbol of level 0 at the end of the chain."""
        return latent.words[0][latent.path(latent.asked)[-1]]

    def acceptable(self, latent: Chains) -> tuple[str, ...]:
        """All symbols of level 0."""
        return tuple(sorted(latent.words[0], key=lambda word: (len(word), word) if word.isdigit() else (0, word)))

    def asked(self, latent: Chains) -> tuple[int, ...]:
        """The lines of the asked chain, that of level D first."""
        hops, chains = len(latent.links), len(latent.links[0])
        return tuple((hops - 1 - step) * chains + i for step, i in enumerate(latent.path(latent.asked)[:-1]))

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Leaving any level unread loses the chain altogether, since the bijections are independent and uniform."""
        return {"any one level unread": 1 / chains}


def _owners(latent: Chains) -> list[list[int]]:
    """For levels 0 ... D, the chain of every symbol: the symbol of level D that leads to it."""
    owners = [list(range(len(latent.links[0])))]
    for link in reversed(latent.links):
        below = [0] * len(link)
        for i, j in enumerate(link):
            below[j] = owners[0][i]
        owners.insert(0, below)
    return owners


ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@cache
def letters(wanted: int) -> tuple[str, ...]:
    """The first names of a ... z, aa, ab, ..., as spreadsheets name their columns."""
    words = ("".join(word) for length in count(1) for word in product(ALPHABET, repeat=length))
    return tuple(islice(words, wanted))


@cache
def syllables(taken: tuple[str, ...], wanted: int) -> tuple[str, ...]:
    """`taken`, then made-up names of two or more syllables, none of them in `taken`: Baba, Babe, ..."""
    syllable = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    made = ("".join(word).capitalize() for length in count(2) for word in product(syllable, repeat=length))
    known = set(taken)
    more = islice((word for word in made if word not in known), max(0, wanted - len(taken)))
    return (*taken, *more)[:wanted]


def levels(pool: Sequence[str], hops: int, chains: int, extensions: Extensions, draw: Draw) -> list[Sequence[str]]:
    """The names of levels 1 ... D: blocks of the pool, taken in order, or at random for random names."""
    wanted = hops * chains
    names = draw.some(pool, wanted) if extensions.names == "random" else pool
    return [names[start : start + chains] for start in range(0, wanted, chains)]
