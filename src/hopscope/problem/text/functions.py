"""Functions (Appendix A.4, conditional): tables of a..d, aliases e..h of these, arguments i..l; the question asks for
`f(i)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations

from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import Draw, Formulation, Latent, Line, draw_order

SIZE = 4
FUNCTIONS, ALIASES, VARIABLES = "abcd", "efgh", "ijkl"


@dataclass(frozen=True)
class Applications(Latent):
    """Functions, aliases of functions, and named numbers.

    Attributes:
        tables: the values of a..d at 0..3, each a permutation.
        aliases: the function that each of e..h names.
        arguments: the number that each of i..l names.
        alias: the alias asked about.
        variable: the variable it is applied to.
    """

    tables: tuple[tuple[int, ...], ...]
    aliases: tuple[int, ...]
    arguments: tuple[int, ...]
    alias: int
    variable: int


class Functions(Formulation[Applications]):
    """Three lookups: the alias, the argument, and the table at both."""

    name = "functions"
    paper_hops = 3
    instruction = "Say directly only the numeric value, without any other words."
    allowed = frozenset({"latin", "lines", "repeat", "filler", "shots", "think"})

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Applications:
        """Draw four independent tables, or a uniform Latin square, and uniform aliases, arguments and question."""
        if extensions.latin:
            squares = latin_squares()
            tables = squares[draw.below(len(squares))]
        else:
            tables = tuple(draw.permutation(SIZE) for _ in range(SIZE))
        aliases, arguments = draw.permutation(SIZE), draw.permutation(SIZE)
        alias, variable = draw.below(SIZE), draw.below(SIZE)
        order = draw_order(draw, [SIZE * SIZE, SIZE, SIZE], [False] * 3, extensions.lines)
        return Applications(order, tables, aliases, arguments, alias, variable)

    def facts(self, latent: Applications) -> list[Line]:
        """The lines of tables (`a(0) = 3`), aliases (`e = b`) and arguments (`i = 0`)."""
        tables = [
            Line((f, "(", str(x), ") = ", str(y)), ("function>", None, "number>", None, ">value"), 3, None)
            for f, table in zip(FUNCTIONS, latent.tables, strict=True)
            for x, y in enumerate(table)
        ]
        aliases = [
            Line((name, " = ", FUNCTIONS[f]), ("alias>", None, ">function"), 1, None)
            for name, f in zip(ALIASES, latent.aliases, strict=True)
        ]
        arguments = [
            Line((name, " = ", str(x)), ("variable>", None, ">number"), 2, None)
            for name, x in zip(VARIABLES, latent.arguments, strict=True)
        ]
        return [*tables, *aliases, *arguments]

    def question(self, latent: Applications) -> Line:
        """A question such as `What is the value of f(i)?`."""
        pieces = ("What is the value of ", ALIASES[latent.alias], "(", VARIABLES[latent.variable], ")?")
        return Line(pieces, (None, "alias?", None, "variable?", None), 0, None)

    def answer(self, latent: Applications) -> str:
        """The function's value at the argument."""
        return str(latent.tables[latent.aliases[latent.alias]][latent.arguments[latent.variable]])

    def acceptable(self, latent: Applications) -> tuple[str, ...]:
        """The numbers 0..3."""
        return tuple(str(i) for i in range(SIZE))

    def asked(self, latent: Applications) -> tuple[int, ...]:
        """The lines of the alias, the argument and the table, in this order."""
        table = latent.aliases[latent.alias] * SIZE + latent.arguments[latent.variable]
        return SIZE * SIZE + latent.alias, SIZE * (SIZE + 1) + latent.variable, table

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Values of independent tables repeat, so the argument alone tells much: the commonest value there is right in
        17/32 of cases."""
        others = {"arguments unread": 1 / 4, "tables unread": 1 / 4}
        if extensions.latin:
            return {"aliases unread": 1 / 4, **others}
        return {
            "aliases unread, a random function": 7 / 16,
            "aliases unread, the commonest value": 17 / 32,
            **others,
        }


@cache
def latin_squares() -> list[tuple[tuple[int, ...], ...]]:
    """All 576 Latin squares of order 4, as rows."""
    squares: list[tuple[tuple[int, ...], ...]] = [()]
    for _ in range(SIZE):
        squares = [
            (*square, row)
            for square in squares
            for row in permutations(range(SIZE))
            if all(row[x] != above[x] for above in square for x in range(SIZE))
        ]
    return squares
