"""The three formulations of chains: levels of symbols, each linked one-to-one to the level before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from string import ascii_lowercase
from typing import ClassVar

from hopscope.errors import InputError
from hopscope.problem.roles import role_names
from hopscope.problem.text.formulation import PAPER_CHAINS, Draw, Extensions, Form, Formulation, Latent, Line, Wording


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
        """Return the chain that begins at symbol `start` of level D: one symbol per level, down to level 0."""
        symbols = [start]
        for link in reversed(self.links):
            symbols.append(link[symbols[-1]])
        return symbols


class ChainFormulation(Formulation[Chains]):
    """A formulation in which every fact links a symbol to one of the level before.

    `published` holds the paper's names for levels 1 ... D, in blocks of four; it is empty if all words are fixed. If
    `value_first` is set, a line begins with the symbol of the level before.
    """

    published: ClassVar[Sequence[str]] = ()
    value_first: ClassVar[bool] = False

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Raise an `InputError` if the published names are too few, unless other names may be used."""
        if not self.published:
            super().check_size(hops, chains, extensions)
        most = len(self.published) // PAPER_CHAINS
        if self.published and extensions.names == "paper" and (hops > most or chains != PAPER_CHAINS):
            raise InputError(
                f"hops must be 1..{most} and chains 4 for {self.name} in the paper's format ({len(self.published)} "
                f"names), got {hops} and {chains}; extended names (an extension of the format) allow more"
            )

    def values(self, chains: int) -> Sequence[str]:
        """The symbols of level 0."""
        raise NotImplementedError

    def names(self) -> Iterator[str]:
        """Yield the names for levels 1 ... D: first the paper's names, then further names."""
        raise NotImplementedError

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Sequence[Sequence[str]]:
        """Return the symbols of levels 0 ... D: the values, then names in their fixed order or drawn at random."""
        wanted = hops * chains
        names = [*islice(self.names(), max(wanted, len(self.published)))]
        if extensions.names == "random":
            names = draw.some(names, wanted)
        return [self.values(chains), *(names[start : start + chains] for start in range(0, wanted, chains))]

    @abstractmethod
    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """Return the pieces of a line that says that `first`, on this level, leads to `second`, on the level before."""

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Chains:
        """Draw independent uniform bijections, the order of the lines and the symbol asked for."""
        links = tuple(draw.permutation(chains) for _ in range(hops))
        asked = draw.below(chains)
        order = draw.order([chains] * hops, [True] * hops, extensions.lines)
        return Chains(order, tuple(map(tuple, self.words(hops, chains, extensions, draw))), links, asked)

    def write(self, latent: Chains, form: Form = "instruction") -> Wording:
        """Write the lines of levels 1 ... D and the question where x0 leads; level r is pair D - r + 1."""
        hops, chains = len(latent.links), len(latent.links[0])
        names, facts = role_names(hops), []
        owner = {(hops - n, i): start for start in range(chains) for n, i in enumerate(latent.path(start))}
        for level, link in enumerate(latent.links, start=1):
            pair = hops - level + 1
            roles: tuple[str | None, ...] = (names[2 * pair - 2], None, names[2 * pair - 1])
            for i, symbol in enumerate(latent.words[level]):
                below = latent.words[level - 1][link[i]]
                pieces, own = self.fact(level, symbol, below), (*roles[::-1], None) if self.value_first else roles
                if form == "code":
                    mark = '"' if level == 1 and not below.isdigit() else ""
                    pieces, own = (symbol, f" = {mark}", below, mark), (*roles, None)
                facts.append(Line(pieces, own, pair, owner[level, i]))
        before, after = self.asks[form]
        question = Line((before, latent.words[-1][latent.asked], after), (None, "x0?", None), 0, latent.asked)
        path = latent.path(latent.asked)
        acceptable = sorted(latent.words[0], key=lambda word: (len(word), word) if word.isdigit() else (0, word))
        asked = tuple((hops - 1 - step) * chains + i for step, i in enumerate(path[:-1]))
        return Wording(facts, question, latent.words[0][path[-1]], tuple(acceptable), asked)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Without one of the levels, no guess beats chance, since the bijections are independent and uniform."""
        return {"any one level unread": 1 / chains}


class Equations(ChainFormulation):
    """D blocks of equations (Appendix A.1), including the block that gives variables their numbers."""

    name = "equations"
    paper_hops = 5
    instruction = "Say directly only the numeric value, without any other words."
    allowed = Formulation.allowed | {"names"}
    published = ascii_lowercase

    def values(self, chains: int) -> list[str]:
        """The numbers from 0."""
        return [str(number) for number in range(chains)]

    def names(self) -> Iterator[str]:
        """Yield a ... z, aa, ab, ..., as spreadsheets name their columns."""
        return ("".join(word) for length in count(1) for word in product(ascii_lowercase, repeat=length))

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `b = 2`."""
        return first, " = ", second


_NAMES = (
    "Alice Bob Charlie David Eve Frank Grace Henry Isabelle Jack Kate Larry Mary Nick Olivia Peter Queen Rose Sam Tom",
    "Amsterdam Berlin Cairo Delhi Edinburgh Florence Geneva Helsinki Istanbul Jakarta Kyoto Lima Madrid Nairobi Oslo "
    "Paris Quito Rome Seoul Tokyo Utrecht Vienna Warsaw Xiamen York Zagreb",
)
_PEOPLE, _CITIES = (tuple(words.split()) for words in _NAMES)
"""The paper's people, and cities; the paper uses the first four cities."""


class LivesWith(ChainFormulation):
    """D blocks of lines about people (Appendix A.2); lines of one block name a city, all others name another person."""

    name = "lives-with"
    paper_hops = 5
    instruction = "Say directly only the name of the city, without any other words."
    allowed = Formulation.allowed | {"names"}
    asks = Formulation.asks | {"instruction": ("Where does ", " live?"), "completion": ("", " lives in")}
    published = _PEOPLE

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Raise an `InputError` for a size beyond the paper's format, or more chains than cities."""
        super().check_size(hops, chains, extensions)
        if chains > len(_CITIES):
            raise InputError(f"chains must be 1..{len(_CITIES)} for lives-with, one per city, got {chains}")

    def values(self, chains: int) -> tuple[str, ...]:
        """The first cities."""
        return _CITIES[:chains]

    def names(self) -> Iterator[str]:
        """Yield the paper's people, then made-up names of two or more syllables: Baba, Babe, ..."""
        yield from _PEOPLE
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
        made = ("".join(word).capitalize() for length in count(2) for word in product(syllables, repeat=length))
        yield from (name for name in made if name not in _PEOPLE)

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `Charlie lives in Cairo` or `Henry lives with David`, without a full stop."""
        return first, " lives in " if level == 1 else " lives with ", second


_KINGDOMS = (
    ("Alice", "Bob", "Charlie", "David"),
    ("Novaria", "Silvania", "Aurora", "Florinia"),
    ("harmonianism", "celestianism", "elysianism", "luminism"),
    ("lamb", "chicken", "pork", "beef"),
    ("Zephyrium", "Nephryon", "Virellium", "Astralyte"),
    ("Chronogy", "Synthemia", "Somnosis", "Aetherflux"),
)
_VERBS = (" lives in ", " believe in ", " eat ", " contains ", " causes ")


class Kingdoms(ChainFormulation):
    """Five blocks of facts (Appendix A.3). The text leads from person to condition, the question backwards.

    In the paper's examples (Section 4 and Appendix A.3), the n-th words of all rows belong together (Alice, Novaria,
    harmonianism, ...), so the author may have shuffled only the lines. Here, the links are drawn at random.
    """

    name = "kingdoms"
    paper_hops = 5
    instruction = "Say directly the name without other words."
    asks = Formulation.asks | {"instruction": ("Who has ", "?"), "completion": ("The one who has ", " is")}
    value_first = True

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Sequence[Sequence[str]]:
        """The paper's words."""
        return _KINGDOMS

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `Bob lives in Silvania.`, in which the key comes last."""
        return _subject(level - 1, second), _VERBS[level - 1], first, "."


def _subject(level: int, word: str) -> str:
    """Return a symbol of a level as it is written at the start of a sentence: Novarians, Luminists, Beef."""
    if level == 1:
        return word + "ns"
    if level == 2:
        return word.capitalize().removesuffix("m") + "ts"
    return word.capitalize()
