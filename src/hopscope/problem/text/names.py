"""Names beyond the paper's, for the extensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count, islice, product

from hopscope.problem.text.draw import Draw
from hopscope.problem.text.extensions import Extensions

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
