"""Lives-with (Appendix A.2): `Charlie lives in Cairo`, then `Henry lives with David`, ...; the question asks for a
city."""

from __future__ import annotations

from hopscope.errors import InputError
from hopscope.problem.text.chains import ChainFormulation, Pieces, Words, levels, syllables
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import PAPER_CHAINS, Draw

_NAMES = (
    "Alice Bob Charlie David Eve Frank Grace Henry Isabelle Jack Kate Larry Mary Nick Olivia Peter Queen Rose Sam Tom"
)
NAMES = tuple(_NAMES.split())
_CITIES = (
    "Amsterdam Berlin Cairo Delhi Edinburgh Florence Geneva Helsinki Istanbul Jakarta Kyoto Lima Madrid "
    "Nairobi Oslo Paris Quito Rome Seoul Tokyo Utrecht Vienna Warsaw Xiamen York Zagreb"
)
CITIES = tuple(_CITIES.split())
"""Names of cities, of which the paper uses the first four."""


class LivesWith(ChainFormulation):
    """D blocks of people; the first block's people name their cities."""

    name = "lives-with"
    paper_hops = 5
    instruction = "Say directly only the name of the city, without any other words."
    allowed = frozenset({"names", "lines", "repeat", "filler", "shots", "think"})

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size beyond the paper's format, which has twenty people, and more chains than cities."""
        self.check_published(hops, chains, extensions, len(NAMES) // PAPER_CHAINS, "20 names")
        if chains > len(CITIES):
            raise InputError(f"chains must be 1..{len(CITIES)} for lives-with, one a city, got {chains}")

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """Cities at level 0, then blocks of people."""
        pool = syllables(NAMES, max(hops * chains, len(NAMES)))
        return [CITIES[:chains], *levels(pool, hops, chains, extensions, draw)]

    def fact(self, level: int, first: str, second: str, roles: tuple[str, str]) -> Pieces:
        """A line such as `Charlie lives in Cairo` or `Henry lives with David`, without a full stop."""
        return (first, " lives in " if level == 1 else " lives with ", second), (roles[0], None, roles[1])

    def ask(self, symbol: str, role: str) -> Pieces:
        """A question such as `Where does Rose live?`."""
        return ("Where does ", symbol, " live?"), (None, role, None)
