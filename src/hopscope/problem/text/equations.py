"""Equations (Appendix A.1): `b = 2`, then `e = b`, ...; the question asks for a letter's value in the last block."""

from __future__ import annotations

from hopscope.errors import InputError
from hopscope.problem.text.chains import ChainFormulation, Pieces, Words
from hopscope.problem.text.draw import Draw
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import PAPER_CHAINS
from hopscope.problem.text.names import ALPHABET, letters, levels


class Equations(ChainFormulation):
    """D blocks of equations. D counts the block of numbers too."""

    name = "equations"
    paper_hops = 5
    instruction = "Say directly only the numeric value, without any other words."
    allowed = frozenset({"names", "lines", "repeat", "filler", "shots", "think"})

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size beyond the paper's format: the alphabet has six blocks of four letters."""
        if extensions.names == "paper" and chains != PAPER_CHAINS:
            raise InputError(f'chains must be 4 in the paper\'s format, got {chains}; pass names="extended"')
        most = len(ALPHABET) // PAPER_CHAINS
        if extensions.names == "paper" and hops > most:
            raise InputError(
                f"hops must be 1..{most} for equations in the paper's format (26 letters), got {hops}; "
                'pass names="extended"'
            )

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
