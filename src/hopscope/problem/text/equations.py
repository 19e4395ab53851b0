"""Equations (Appendix A.1): `b = 2`, then `e = b`, ...; the question asks for a letter's value in the last block."""

from __future__ import annotations

from hopscope.problem.text.chains import ALPHABET, ChainFormulation, Pieces, Words, letters, levels
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import PAPER_CHAINS, Draw


class Equations(ChainFormulation):
    """D blocks of equations. D counts the block of numbers too."""

    name = "equations"
    paper_hops = 5
    instruction = "Say directly only the numeric value, without any other words."
    allowed = frozenset({"names", "lines", "repeat", "filler", "shots", "think"})

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size beyond the paper's format: the alphabet has six blocks of four letters."""
        self.check_published(hops, chains, extensions, len(ALPHABET) // PAPER_CHAINS, "26 letters")

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """Numbers at level 0, then blocks of letters."""
        pool = letters(max(hops * chains, len(ALPHABET)))
        return [[str(i) for i in range(chains)], *levels(pool, hops, chains, extensions, draw)]

    def fact(self, level: int, first: str, second: str, roles: tuple[str, str]) -> Pieces:
        """A line such as `b = 2`."""
        return (first, " = ", second), (roles[0], None, roles[1])

    def ask(self, symbol: str, role: str) -> Pieces:
        """A question such as `What is the value of s?`."""
        return ("What is the value of ", symbol, "?"), (None, role, None)
