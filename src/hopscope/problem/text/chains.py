"""The three formulations of chains: levels of symbols, each a bijection onto the level before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice, product
from string import ascii_lowercase
from typing import ClassVar

from hopscope.errors import InputError
from hopscope.problem.roles import role_names
from hopscope.problem.text.formulation import PAPER_CHAINS, Draw, Extensions, Form, Formulation, Latent, Line, Wording

Words = Sequence[Sequence[str]]


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
    """A formulation in which every fact links a symbol to one of the level before.

    Attributes:
        published: the paper's names of levels 1 ... D, in blocks of four; empty where all words are fixed.
        called: what these names are.
        asks: the words of the question before and after the symbol that it asks for.
        begins: those of the line that the answer ends, in the form `completion`.
        value_first: whether a line begins with the symbol of the level before.
    """

    published: ClassVar[Sequence[str]] = ()
    called: ClassVar[str] = "names"
    asks: ClassVar[tuple[str, str]]
    begins: ClassVar[tuple[str, str]]
    value_first: ClassVar[bool] = False

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size for which the published names do not suffice, unless others may be used."""
        if not self.published:
            super().check_size(hops, chains, extensions)
        elif extensions.names == "paper":
            most = len(self.published) // PAPER_CHAINS
            if chains != PAPER_CHAINS:
                raise InputError(f'chains must be 4 in the paper\'s format, got {chains}; pass names="extended"')
            if hops > most:
                raise InputError(
                    f"hops must be 1..{most} for {self.name} in the paper's format ({len(self.published)} "
                    f'{self.called}), got {hops}; pass names="extended"'
                )

    @abstractmethod
    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """The symbols of levels 0 ... D."""

    @abstractmethod
    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """The pieces of a line: `first` of this level leads to `second` of the level before."""

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Chains:
        """Independent uniform bijections, orders of lines and query."""
        links = tuple(draw.permutation(chains) for _ in range(hops))
        asked = draw.below(chains)
        order = draw.order([chains] * hops, [True] * hops, extensions.lines)
        words = tuple(tuple(level) for level in self.words(hops, chains, extensions, draw))
        return Chains(order, words, links, asked)

    def write(self, latent: Chains, form: Form = "instruction") -> Wording:
        """The lines of levels 1 ... D, of which level r is pair D - r + 1, and the question where x0 leads."""
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
        words = {"instruction": self.asks, "completion": self.begins, "code": ("print(", ")  # Output:")}
        before, after = words[form]
        question = Line((before, latent.words[-1][latent.asked], after), (None, "x0?", None), 0, latent.asked)
        path = latent.path(latent.asked)
        acceptable = sorted(latent.words[0], key=lambda word: (len(word), word) if word.isdigit() else (0, word))
        asked = tuple((hops - 1 - step) * chains + i for step, i in enumerate(path[:-1]))
        return Wording(facts, question, latent.words[0][path[-1]], tuple(acceptable), asked)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Leaving any level unread loses the chain altogether, since the bijections are independent and uniform."""
        return {"any one level unread": 1 / chains}


def _levels(pool: Sequence[str], hops: int, chains: int, extensions: Extensions, draw: Draw) -> list[Sequence[str]]:
    """The names of levels 1 ... D: blocks of the pool, taken in order, or at random for random names."""
    wanted = hops * chains
    names = draw.some(pool, wanted) if extensions.names == "random" else pool
    return [names[start : start + chains] for start in range(0, wanted, chains)]


class Equations(ChainFormulation):
    """D blocks of equations (Appendix A.1). D counts the block of numbers too."""

    name = "equations"
    paper_hops = 5
    instruction = "Say directly only the numeric value, without any other words."
    allowed = frozenset({"form", "names", "lines", "repeat", "filler", "shots", "think"})
    published, called = ascii_lowercase, "letters"
    asks, begins = ("What is the value of ", "?"), ("", " =")

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """Numbers at level 0, then blocks of letters."""
        pool = _letters(max(hops * chains, len(self.published)))
        return [[str(i) for i in range(chains)], *_levels(pool, hops, chains, extensions, draw)]

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `b = 2`."""
        return first, " = ", second


@cache
def _letters(wanted: int) -> tuple[str, ...]:
    """The first names of a ... z, aa, ab, ..., as spreadsheets name their columns."""
    words = ("".join(word) for length in count(1) for word in product(ascii_lowercase, repeat=length))
    return tuple(islice(words, wanted))


_NAMES = (
    "Alice Bob Charlie David Eve Frank Grace Henry Isabelle Jack Kate Larry Mary Nick Olivia Peter Queen Rose Sam Tom",
    "Amsterdam Berlin Cairo Delhi Edinburgh Florence Geneva Helsinki Istanbul Jakarta Kyoto Lima Madrid Nairobi Oslo "
    "Paris Quito Rome Seoul Tokyo Utrecht Vienna Warsaw Xiamen York Zagreb",
)
_PEOPLE, _CITIES = (tuple(words.split()) for words in _NAMES)
"""The paper's people, and cities, of which the paper uses the first four."""


class LivesWith(ChainFormulation):
    """D blocks of people (Appendix A.2); the first block's people name their cities."""

    name = "lives-with"
    paper_hops = 5
    instruction = "Say directly only the name of the city, without any other words."
    allowed = frozenset({"form", "names", "lines", "repeat", "filler", "shots", "think"})
    published = _PEOPLE
    asks, begins = ("Where does ", " live?"), ("", " lives in")

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size beyond the paper's format, and more chains than cities."""
        super().check_size(hops, chains, extensions)
        if chains > len(_CITIES):
            raise InputError(f"chains must be 1..{len(_CITIES)} for lives-with, one a city, got {chains}")

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """Cities at level 0, then blocks of people."""
        pool = _people(max(hops * chains, len(self.published)))
        return [_CITIES[:chains], *_levels(pool, hops, chains, extensions, draw)]

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `Charlie lives in Cairo` or `Henry lives with David`, without a full stop."""
        return first, " lives in " if level == 1 else " lives with ", second


@cache
def _people(wanted: int) -> tuple[str, ...]:
    """The paper's names, then made-up ones of two or more syllables: Baba, Babe, ..."""
    syllable = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    made = ("".join(word).capitalize() for length in count(2) for word in product(syllable, repeat=length))
    return (*_PEOPLE, *islice((word for word in made if word not in _PEOPLE), max(0, wanted - len(_PEOPLE))))[:wanted]


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
    """Five blocks of facts (Appendix A.3). The text reads from person to condition, the question backwards.

    Words at the same position of each row belong together in the paper's examples (Alice, Novaria, harmonianism, ...),
    in Section 4 and Appendix A.3 alike, so the author may have shuffled lines alone. Here links are drawn.
    """

    name = "kingdoms"
    paper_hops = 5
    instruction = "Say directly the name without other words."
    allowed = frozenset({"form", "lines", "repeat", "filler", "shots", "think"})
    asks, begins = ("Who has ", "?"), ("The one who has ", " is")
    value_first = True

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """The paper's words."""
        return _KINGDOMS

    def fact(self, level: int, first: str, second: str) -> tuple[str, ...]:
        """A line such as `Bob lives in Silvania.`, in which the key comes last."""
        return _subject(level - 1, second), _VERBS[level - 1], first, "."


def _subject(level: int, word: str) -> str:
    """How a symbol of a level is written at the start of a sentence: Novarians, Luminists, Beef."""
    if level == 1:
        return word + "ns"
    if level == 2:
        return word.capitalize().removesuffix("m") + "ts"
    return word.capitalize()
