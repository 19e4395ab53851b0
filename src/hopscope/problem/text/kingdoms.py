"""Kingdoms (Appendix A.3): people, kingdoms, beliefs, foods, minerals, conditions; the question asks for a person, from
a condition backwards."""

from __future__ import annotations

from hopscope.problem.text.chains import ChainFormulation, Pieces, Words
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import Draw

WORDS = (
    ("Alice", "Bob", "Charlie", "David"),
    ("Novaria", "Silvania", "Aurora", "Florinia"),
    ("harmonianism", "celestianism", "elysianism", "luminism"),
    ("lamb", "chicken", "pork", "beef"),
    ("Zephyrium", "Nephryon", "Virellium", "Astralyte"),
    ("Chronogy", "Synthemia", "Somnosis", "Aetherflux"),
)
VERBS = (" lives in ", " believe in ", " eat ", " contains ", " causes ")


def subject(level: int, word: str) -> str:
    """How a symbol of a level is written at the start of a sentence: Novarians, Luminists, Beef."""
    if level == 1:
        return word + "ns"
    if level == 2:
        return word.capitalize().removesuffix("m") + "ts"
    return word.capitalize()


class Kingdoms(ChainFormulation):
    """Five blocks of facts. The text reads from person to condition, the question from condition to person.

    Words in the same place of each row of `WORDS` belong together in the paper's examples (Alice, Novaria,
    harmonianism, ...), in Section 4 and Appendix A.3 alike, so the author may have shuffled only lines: `links="fixed"`
    does this.
    """

    name = "kingdoms"
    paper_hops = 5
    instruction = "Say directly the name without other words."
    allowed = frozenset({"lines", "links", "repeat", "filler", "shots", "think"})

    def words(self, hops: int, chains: int, extensions: Extensions, draw: Draw) -> Words:
        """The paper's words."""
        return WORDS

    def fact(self, level: int, first: str, second: str, roles: tuple[str, str]) -> Pieces:
        """A line such as `Bob lives in Silvania.`, in which the symbol that is looked up comes last."""
        return (subject(level - 1, second), VERBS[level - 1], first, "."), (roles[1], None, roles[0], None)

    def ask(self, symbol: str, role: str) -> Pieces:
        """A question such as `Who has Chronogy?`."""
        return ("Who has ", symbol, "?"), (None, role, None)
